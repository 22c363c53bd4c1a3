//! Measures the resident memory that a registered contact costs in total: the binding, its key, its share of the table,
//! and the allocator's overhead. The budget is 300 bytes.

use sip_elements::location::{Binding, LocationLimits, Locations};
use sip_transport::{ConnectionId, ListenerId, Time};

const CONTACTS: u32 = 200_000;
const BUDGET: u64 = 300;

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_registered_contact_costs_less_than_300_octets() {
    let limits = LocationLimits {
        max_bindings: CONTACTS as usize,
        max_pending_changes: 1,
    };
    let locations = Locations::with_secret((1, 2), limits);
    let before = resident();
    for number in 0..CONTACTS {
        let [_, a, b, c] = number.to_be_bytes();
        let contact = format!("sip:user{number}@10.{a}.{b}.{c}:5062;transport=udp");
        let call_id = format!("{number:08x}-9e44f2c1-71ab-4c5b@10.{a}.{b}.{c}");
        let binding = Binding {
            contact: contact.as_bytes(),
            q: 1000,
            expires_at: 3_600,
            call_id: call_id.as_bytes(),
            cseq: 2,
            path: b"",
            instance: b"",
            user_agent: b"Softphone v3.15.0 (x86_64/Linux)",
            source: ([10, a, b, c], 5062).into(),
            listener: ListenerId(0),
            connection: ConnectionId::NONE,
        };
        locations.restore(format!("user{number}@example.org").as_bytes(), &binding);
    }
    locations.sweep(Time::from_unix_seconds(1));
    let each = (resident() - before) / u64::from(CONTACTS);
    println!("{each} octets for each of {CONTACTS} contacts");
    assert_eq!(locations.stats().live, u64::from(CONTACTS));
    assert!(each < BUDGET, "{each} octets for each contact");
}
