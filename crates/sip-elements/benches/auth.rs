//! Digest authentication: what a challenge costs, and what judging credentials costs with a cached password.

use divan::{Bencher, black_box};
use phones::{NOW, Phone, REALM, server};
use sip_elements::auth::{Challenge, Challenger, Subject, Verdict, add_challenges, verify};
use sip_elements::bans::Source;
use sip_message::digest::Algorithm;
use sip_message::{Message, ResponseWriter};

mod phones;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

#[divan::bench(args = [Algorithm::Md5, Algorithm::Sha256], sample_count = 200, sample_size = 500)]
fn verify_credentials(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    let server = server(algorithm);
    let mut phone = Phone::new(&server, 42);
    bencher
        .with_inputs(|| phone.next_register(algorithm))
        .bench_local_refs(|register| {
            let request = Message::parse(&register.bytes).expect("a message");
            let subject = Subject {
                challenger: Challenger::Registrar,
                username: register.username(),
                realm: REALM,
                source: register.flow.remote.ip(),
            };
            let verdict = verify(&request, &subject, server.view(), &mut |_| ());
            assert_eq!(verdict, Verdict::Accepted);
        });
}

/// The part of the above that is not ours.
#[divan::bench(sample_count = 200, sample_size = 500)]
fn parse_only(bencher: Bencher<'_, '_>) {
    let server = server(Algorithm::Md5);
    let mut phone = Phone::new(&server, 42);
    bencher
        .with_inputs(|| phone.next_register(Algorithm::Md5))
        .bench_local_refs(|register| {
            Message::parse(black_box(&register.bytes))
                .expect("a message")
                .is_request()
        });
}

#[divan::bench(args = [Algorithm::Md5, Algorithm::Sha256])]
fn challenge(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    let server = server(algorithm);
    let mut phone = Phone::new(&server, 42);
    let register = phone.next_register(algorithm);
    let request = Message::parse(&register.bytes).expect("a message");
    let mut into = Vec::new();
    bencher.bench_local(|| {
        into.clear();
        let begun = ResponseWriter::begin(
            &mut into,
            &request,
            register.flow.remote,
            401,
            "",
            Some(b"tag"),
        );
        let nonces = &server.shared.nonces;
        add_challenges(
            begun,
            &Challenge {
                challenger: Challenger::Registrar,
                realm: REALM,
                source: Source::of(register.flow.remote.ip()),
                stale: false,
            },
            nonces,
            &server.settings,
            NOW,
        )
        .finish();
        into.len()
    });
}
