//! A REGISTER from its bytes to the bytes of its 200: parse, validate, authenticate with a cached nonce, bind, answer. 100,000
//! phones are registered and refresh in random order, as in workload W2.

use divan::{Bencher, black_box};
use phones::{NOW, Phone, REALM, Register, Server, server};
use sip_elements::auth::{Challenger, Subject, Verdict, verify};
use sip_elements::registrar::{self, Registration};
use sip_message::Message;
use sip_message::digest::Algorithm;

mod phones;

const PHONES: u32 = 100_000;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

/// What a worker does with a REGISTER between receiving and sending.
fn serve(server: &Server, register: &Register, into: &mut Vec<u8>) -> u16 {
    let request = Message::parse(&register.bytes).expect("a message");
    request.validate().expect("a sound one");
    let subject = Subject {
        challenger: Challenger::Registrar,
        username: register.username(),
        realm: REALM,
        source: register.flow.remote.ip(),
    };
    let verdict = verify(&request, &subject, server.view(), &mut |_| ());
    assert_eq!(verdict, Verdict::Accepted);
    into.clear();
    let registration = Registration {
        request: &request,
        flow: register.flow,
        address: &register.address,
        to_tag: b"9e44f2c171ab4c5b",
    };
    registrar::register(&registration, server.view(), into)
}

#[divan::bench(args = [1, 1_000, PHONES], sample_count = 200, sample_size = 500)]
fn refresh(bencher: Bencher<'_, '_>, count: u32) {
    let server = server(Algorithm::Md5);
    let mut into = Vec::new();
    let mut phones: Vec<Phone> = (0..count)
        .map(|number| Phone::new(&server, number))
        .collect();
    for phone in &mut phones {
        assert_eq!(
            serve(&server, &phone.next_register(Algorithm::Md5), &mut into),
            200
        );
    }
    // As the control plane does every few seconds.
    server.shared.locations.sweep(NOW);
    let mut place = 0;
    bencher
        .with_inputs(|| {
            place = (place + 48_271) % phones.len();
            phones[place].next_register(Algorithm::Md5)
        })
        .bench_local_refs(|register| serve(black_box(&server), register, &mut into));
}
