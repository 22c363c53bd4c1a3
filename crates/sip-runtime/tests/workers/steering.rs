//! Datagrams that the kernel delivers to the home worker of their call.

use super::script::{ANYWHERE, Client, address_of, options, start};
use sip_message::worker_hash;
use sip_runtime::Options;

const WORKERS: u16 = 3;

/// Asks which worker reads it. The header starts `later` bytes later than it could.
fn message(later: usize, call_id: &str) -> String {
    let branch = "x".repeat(later);
    format!(
        "who sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={branch}\r\n{call_id}\r\nCSeq: 1 INVITE\r\n\
         Subject: what comes behind, so that the end is not near\r\n\r\n"
    )
}

/// The home worker of a call.
fn home(call_id: &str) -> String {
    let home = worker_hash(call_id.as_bytes()) % u32::from(WORKERS);
    format!("worker {home}")
}

#[test]
fn a_message_is_read_by_the_home_of_its_call_wherever_its_call_id_stands() {
    for address in ANYWHERE {
        let running = start(address, WORKERS, options());
        let client = Client::of(address_of(&running));
        for later in (0..60).chain([100, 200, 300]) {
            let call_id = format!("{later}-4711@192.0.2.1");
            let header = format!("Call-ID: {call_id}");
            assert_eq!(client.asks(&message(later, &header)), home(&call_id));
        }
        running.stop();
    }
}

#[test]
fn a_call_id_may_be_short_or_long_and_stand_close_to_its_name() {
    let running = start(ANYWHERE[0], WORKERS, options());
    let client = Client::of(address_of(&running));
    for length in 1..=80 {
        let call_id: String = ('a'..='z').cycle().take(length).collect();
        for space in ["", " "] {
            let header = format!("Call-ID:{space}{call_id}");
            assert_eq!(client.asks(&message(0, &header)), home(&call_id));
        }
    }
    running.stop();
}

#[test]
fn messages_without_a_call_id_that_the_kernel_finds_are_read_by_any_worker() {
    let running = start(ANYWHERE[0], WORKERS, options());
    let headers = [
        "i: short@form",
        "call-id: small@letters",
        "Call-Info: <http://example.org/x>",
        "Subject: Call-ID: in a line",
        "Call-ID:  two@spaces",
        "Call-ID:\ttab",
        "Call-ID : space@before",
        "Call-ID:",
    ];
    for worker in 0..WORKERS {
        let client = Client::read_by(address_of(&running), worker);
        for header in headers {
            let reader = client.asks(&message(0, header));
            assert_eq!(reader, format!("worker {worker}"), "{header}");
        }
        // The search is limited to the first bytes.
        let header = "Call-ID: far@behind";
        assert_eq!(
            client.asks(&message(1_300, header)),
            format!("worker {worker}")
        );
    }
    running.stop();
}

#[test]
fn a_message_that_ends_anywhere_is_read() {
    let running = start(ANYWHERE[0], WORKERS, options());
    let client = Client::of(address_of(&running));
    let call_id = "cut@192.0.2.1";
    let whole = message(100, &format!("Call-ID: {call_id}"));
    let name = whole.find("\r\nCall-ID").expect("a Call-ID");
    for length in "who ".len()..whole.len() {
        let reader = client.asks(&whole[..length]);
        // The name is searched in groups of 48 bytes. Until the group is complete, any worker may
        // read the datagram.
        if length > name + 60 {
            assert_eq!(reader, home(call_id), "{length}");
        }
        assert!(reader.starts_with("worker "), "{length}: {reader}");
    }
    running.stop();
}

#[test]
fn without_steering_addresses_alone_pick_the_worker() {
    let options = Options {
        steering: false,
        ..options()
    };
    let running = start(ANYWHERE[0], WORKERS, options);
    let client = Client::read_by(address_of(&running), 1);
    for call in 0..50 {
        let header = format!("Call-ID: {call}");
        assert_eq!(client.asks(&message(0, &header)), "worker 1");
    }
    running.stop();
}
