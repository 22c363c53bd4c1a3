//! The location service with a million bindings: a lookup and a refresh, of any address (memory is cold) and of few (it is warm).

use divan::{Bencher, black_box};
use sip_elements::location::{Binding, LocationLimits, Locations};
use sip_transport::{ConnectionId, ListenerId, Time};
use std::sync::OnceLock;

const BINDINGS: u32 = 1_000_000;
const NOW: Time = Time::from_unix_seconds(1_800_000_000);

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    divan::main();
}

fn address(number: u32) -> Vec<u8> {
    format!("user{number:07}@example.org").into_bytes()
}

fn a_million() -> &'static Locations {
    static LOCATIONS: OnceLock<Locations> = OnceLock::new();
    LOCATIONS.get_or_init(|| {
        let limits = LocationLimits {
            max_bindings: BINDINGS as usize,
            max_pending_changes: 1,
        };
        let locations = Locations::with_secret((1, 2), limits);
        for number in 0..BINDINGS {
            let [_, a, b, c] = number.to_be_bytes();
            let contact = format!("sip:user{number:07}@10.{a}.{b}.{c}:5062;transport=udp");
            let binding = Binding {
                contact: contact.as_bytes(),
                q: 1000,
                expires_at: 1_800_003_600,
                call_id: b"00a1b2c3-9e44f2c1-71ab-4c5b@10.11.12.13",
                cseq: 2,
                path: b"",
                instance: b"",
                user_agent: b"Softphone v3.15.0 (x86_64/Linux)",
                source: ([10, a, b, c], 5062).into(),
                listener: ListenerId(0),
                connection: ConnectionId::NONE,
            };
            locations.restore(&address(number), &binding);
        }
        // As the control plane does every few seconds.
        locations.sweep(NOW);
        locations
    })
}

/// Addresses in an order that no prefetcher guesses.
fn addresses(among: u32) -> Vec<Vec<u8>> {
    let mut number = 1_u64;
    (0..among.min(200_000))
        .map(|_| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            address((number >> 33) as u32 % among)
        })
        .collect()
}

#[divan::bench(args = [1_000, 100_000, BINDINGS], sample_count = 100, sample_size = 2_000)]
fn lookup(bencher: Bencher<'_, '_>, among: u32) {
    let locations = a_million();
    let addresses = addresses(among);
    let mut next = addresses.iter().cycle();
    bencher.bench_local(|| {
        let address = next.next().map(Vec::as_slice).unwrap_or_default();
        let mut length = 0;
        let count = locations.visit(black_box(address), NOW, |binding| {
            length += binding.contact.len();
        });
        assert_eq!(count, 1);
        length
    });
}

#[divan::bench]
fn lookup_of_nobody(bencher: Bencher<'_, '_>) {
    let locations = a_million();
    bencher.bench(|| locations.visit(black_box(b"nobody@example.org"), NOW, |_| ()));
}

#[divan::bench(args = [1_000, BINDINGS], sample_count = 100, sample_size = 1_000)]
fn replace(bencher: Bencher<'_, '_>, among: u32) {
    let locations = a_million();
    let addresses = addresses(among);
    let mut next = addresses.iter().cycle();
    bencher.bench_local(|| {
        let address = next.next().map(Vec::as_slice).unwrap_or_default();
        let binding = Binding {
            contact: b"sip:another@10.0.0.1:5062;transport=udp",
            q: 1000,
            expires_at: 1_800_003_600,
            call_id: b"00a1b2c3-9e44f2c1-71ab-4c5b@10.11.12.13",
            cseq: 2,
            path: b"",
            instance: b"",
            user_agent: b"Softphone v3.15.0 (x86_64/Linux)",
            source: ([10, 1, 2, 3], 5062).into(),
            listener: ListenerId(0),
            connection: ConnectionId::NONE,
        };
        // Makes it a lookup, a change of a packed record and a new allocation, as a refresh does.
        locations.restore(black_box(address), &binding);
    });
}
