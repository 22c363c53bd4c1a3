//! Measures the resident memory that a confirmed dialog of a typical call costs in total: its slot, its texts, its timer, its place in
//! the index, and the allocator's overhead. The budget is 700 bytes.

use sip_dialog::{Answer, Dialogs, Invitation, Leg, Text};
use sip_transaction::Account;
use sip_transport::{Flow, ListenerId, Protocol, Time};
use std::time::Duration;

const DIALOGS: u32 = 60_000;
const BUDGET: u64 = 700;

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm.split(' ').nth(1).expect("a field");
    pages.parse::<u64>().expect("a number") * 4096
}

#[test]
fn a_dialog_costs_less_than_700_bytes() {
    let now = Time::from_unix_seconds(1_800_000_000);
    let leg = Leg {
        flow: Flow::to(ListenerId(0), ([10, 0, 0, 1], 5060).into()),
        protocol: Protocol::Udp,
        is_by_flow: false,
    };
    let mut dialogs = Dialogs::new(now);
    let before = resident();
    for number in 0..DIALOGS {
        let [_, a, b, c] = number.to_be_bytes();
        let call_id = format!("{number:08x}-9e44f2c1-71ab-4c5b@10.{a}.{b}.{c}");
        let (caller, callee) = (format!("{number:016x}"), format!("{number:032x}"));
        let (from, to) = (
            format!("sip:user{number}@example.org"),
            format!("sip:{number:012}@example.org"),
        );
        let contact = |host: &str| format!("sip:user{number}@{host}{a}.{b}.{c}:5062;transport=udp");
        let identity = format!("user{number}@example.org");
        let id = dialogs.begin(&Invitation {
            id: u128::from(number),
            account: Account::KNOWN,
            source: leg,
            cseq: 1,
            received: now,
            texts: &[
                (Text::CallId, call_id.as_bytes()),
                (Text::CallerTag, caller.as_bytes()),
                (Text::CallerTarget, contact("10.").as_bytes()),
                (Text::From, from.as_bytes()),
                (Text::To, to.as_bytes()),
                (Text::RequestUri, to.as_bytes()),
                (Text::Identity, identity.as_bytes()),
            ],
        });
        let callee_contact = contact("11.");
        let answer = Answer {
            key: u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            destination: leg,
            status: 200,
            now,
            lifetime: Duration::from_secs(86_400),
            patience: Duration::from_secs(32),
            texts: &[
                (Text::CalleeTag, callee.as_bytes()),
                (Text::CalleeTarget, callee_contact.as_bytes()),
                (Text::CalleeRoute, b"<sip:sbc.example.org;lr>"),
            ],
        };
        assert!(dialogs.confirm(id, &answer, true));
    }
    let each = (resident() - before) / u64::from(DIALOGS);
    let stats = dialogs.stats();
    println!(
        "{each} bytes for each of {DIALOGS} dialogs, {} of them texts",
        stats.bytes / u64::from(DIALOGS)
    );
    assert_eq!(stats.confirmed, u64::from(DIALOGS));
    assert!(each <= BUDGET, "{each} bytes for each dialog");
}
