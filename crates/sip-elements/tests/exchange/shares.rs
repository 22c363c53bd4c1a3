//! One address cannot fill a table, and a request with proof of its sender finds room in a full one.

use crate::bench::{
    ALICE, BOB, Bench, accept, answer_challenge, only, recorded, request, settings, status,
};
use std::time::Duration;

const FLOODER: &str = "198.51.100.9:5060";
const BODY: usize = 60_000;

/// An INVITE from a caller of another domain.
fn stranger(callee: &str, number: usize, body: &str) -> String {
    format!(
        "INVITE sip:{callee}@example.org SIP/2.0\nVia: SIP/2.0/UDP {FLOODER};branch=z9hG4bKs{number}\nMax-Forwards: 70\n\
         From: <sip:m@elsewhere.test>;tag=1\nTo: <sip:{callee}@example.org>\nCall-ID: flood-{number}\nCSeq: 1 INVITE\n\
         Contact: <sip:m@{FLOODER}>\nContent-Length: {}\n\n{body}",
        body.len()
    )
}

/// Alice calls bob with her credentials. Returns what the node sends.
fn authenticated_call(bench: &mut Bench, branch: &str) -> Vec<String> {
    let invite = |branch: &str, extra: &str| {
        request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            branch,
            extra,
        )
    };
    let challenge = only(bench.receive(ALICE, &invite(&format!("{branch}a"), "")));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let proven = invite(
        &format!("{branch}b"),
        &format!("Proxy-Authorization: {credentials}\n"),
    );
    let sent = bench.receive(ALICE, &proven).into_iter();
    sent.map(|(_, text)| text).collect()
}

fn check_bytes(bench: &Bench) -> usize {
    let (known, counted) = bench.exchange.held_bytes();
    assert_eq!(known, counted, "what the ledger says and what is held");
    known
}

#[test]
fn a_flood_to_unknown_users_leaves_room_for_authenticated_calls() {
    let mut settings = settings();
    settings.limits.server_transactions = 2_000;
    settings.limits.response_contexts = 2_000;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench
        .shared
        .credentials
        .insert(b"nobody", b"example.org", None, bench.now);
    for number in 0..5_000 {
        let refused = only(bench.receive(FLOODER, &stranger("nobody", number, "")));
        assert!(status(&refused) >= 400, "{refused}");
    }
    assert_eq!(bench.exchange.transaction_stats().servers_live, 0);
    let sent = authenticated_call(&mut bench, "a");
    assert!(
        sent.iter().any(|text| text.starts_with("INVITE ")),
        "{sent:#?}"
    );
}

#[test]
fn a_flood_to_a_phone_that_rings_gets_a_share_of_the_table() {
    let mut settings = settings();
    settings.limits.response_contexts = 1_600;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    for number in 0..5_000 {
        bench.receive(FLOODER, &stranger("bob", number, ""));
    }
    assert_eq!(bench.exchange.proxy_stats().live, 100);
    assert_eq!(bench.metrics.shares_refused.value(), 4_900);
    let refused = only(bench.receive(FLOODER, &stranger("bob", 9_999, "")));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After: 7"), "{refused}");
    let elsewhere = stranger("bob", 10_000, "").replace(FLOODER, "203.0.113.5:5060");
    let sent = bench.receive("203.0.113.5:5060", &elsewhere);
    assert!(sent.iter().any(|(_, text)| text.starts_with("INVITE ")));
    let sent = authenticated_call(&mut bench, "a");
    assert!(sent.iter().any(|text| text.starts_with("INVITE ")));
    check_bytes(&bench);
    // There is no answer, so all state ends.
    for _ in 0..300 {
        bench.wait(Duration::from_secs(1));
    }
    assert_eq!(check_bytes(&bench), 0);
    assert_eq!(bench.metrics.held_sources.value(), 0);
}

#[test]
fn long_bodies_stay_within_the_bound_of_bytes() {
    let mut settings = settings();
    settings.limits.held_bytes = 16 << 20;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let body = "x".repeat(BODY);
    let one = {
        bench.receive(FLOODER, &stranger("bob", 0, &body));
        check_bytes(&bench)
    };
    println!("one call with a body of {BODY} bytes holds {one}");
    assert!(one < BODY + 3_000, "the body is held once: {one}");
    for number in 1..100 {
        bench.receive(FLOODER, &stranger("bob", number, &body));
    }
    let share = check_bytes(&bench);
    assert!(share <= (1 << 20) + 2 * BODY, "{share}");
    for source in 0..200 {
        for number in 0..20 {
            let at = format!("203.0.113.{source}:5060");
            let invite = stranger("bob", 1_000 + source * 100 + number, &body);
            bench.receive(&at, &invite.replace(FLOODER, &at));
        }
    }
    let all = check_bytes(&bench);
    assert!(all <= (12 << 20) + 2 * BODY, "{all}");
    let sent = authenticated_call(&mut bench, "a");
    assert!(sent.iter().any(|text| text.starts_with("INVITE ")));
    for _ in 0..300 {
        bench.wait(Duration::from_secs(1));
    }
    assert_eq!(check_bytes(&bench), 0);
}

#[test]
fn a_trusted_peer_has_no_share() {
    let mut settings = settings();
    settings.limits.response_contexts = 1_600;
    let network = "198.51.100.0/24".parse().expect("a network");
    settings.proxy.trusted_peers = sip_transport::Networks::new([network]);
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    for number in 0..1_000 {
        bench.receive(FLOODER, &stranger("bob", number, ""));
    }
    assert_eq!(bench.exchange.proxy_stats().live, 1_000);
}

/// A caller of another domain calls bob, who answers. Returns the caller's route set.
fn dialog(bench: &mut Bench, number: usize) -> String {
    let sent = bench.receive(FLOODER, &stranger("bob", number, ""));
    let invite = sent.iter().find(|(_, text)| text.starts_with("INVITE "));
    let (_, invite) = invite.expect("it is forwarded");
    let answered = only(bench.receive(BOB, &accept(invite)));
    let mut routes = String::new();
    for route in recorded(&answered).iter().rev() {
        routes.extend(["Route: ", route, "\n"]);
    }
    routes
}

/// A request inside that dialog.
fn inside(method: &str, number: usize, routes: &str, cseq: usize, body: &str) -> String {
    format!(
        "{method} sip:bob@{BOB} SIP/2.0\nVia: SIP/2.0/UDP {FLOODER};branch=z9hG4bKi{number}x{cseq}\nMax-Forwards: 70\n\
         From: <sip:m@elsewhere.test>;tag=1\nTo: <sip:bob@example.org>;tag=b1\nCall-ID: flood-{number}\nCSeq: {cseq} {method}\n\
         {routes}Content-Length: {}\n\n{body}",
        body.len()
    )
}

fn is_relayed(sent: &[(std::net::SocketAddr, String)], method: &str) -> bool {
    let start = format!("{method} ");
    sent.iter().any(|(_, text)| text.starts_with(&start))
}

#[test]
fn a_flood_inside_a_dialog_leaves_room_for_others_to_end_theirs() {
    let mut settings = settings();
    settings.limits.response_contexts = 100;
    settings.limits.server_transactions = 100;
    settings.limits.client_transactions = 100;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let (flooded, other) = (dialog(&mut bench, 1), dialog(&mut bench, 2));
    let mut relayed = 0;
    for cseq in 2..400 {
        let sent = bench.receive(FLOODER, &inside("INFO", 1, &flooded, cseq, ""));
        relayed += usize::from(is_relayed(&sent, "INFO"));
    }
    assert_eq!(relayed, 25, "a quarter");
    let sent = bench.receive("192.0.2.99:5060", &inside("BYE", 2, &other, 2, ""));
    assert!(is_relayed(&sent, "BYE"), "{sent:#?}");
    let sent = authenticated_call(&mut bench, "a");
    assert!(sent.iter().any(|text| text.starts_with("INVITE ")));
    // There is no answer, so all state ends.
    for _ in 0..300 {
        bench.wait(Duration::from_secs(1));
    }
    assert_eq!(check_bytes(&bench), 0);
    assert_eq!(bench.metrics.held_sources.value(), 0);
}

#[test]
fn long_requests_inside_dialogs_leave_bytes_for_brief_ones() {
    let mut settings = settings();
    settings.limits.held_bytes = 4 << 20;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let routes = dialog(&mut bench, 1);
    let body = "x".repeat(BODY);
    for cseq in 2..200 {
        // A proof is valid from any address.
        let at = format!("203.0.113.{}:5060", cseq % 8);
        bench.receive(&at, &inside("INFO", 1, &routes, cseq, &body));
    }
    let all = check_bytes(&bench);
    assert!(((4 << 20)..(4 << 20) + 2 * BODY).contains(&all), "{all}");
    let sent = bench.receive("203.0.113.99:5060", &inside("INFO", 1, &routes, 200, &body));
    assert_eq!(status(&only(sent)), 503);
    for (cseq, method) in [(201, "INFO"), (202, "BYE")] {
        let request = inside(method, 1, &routes, cseq, "");
        let sent = bench.receive("203.0.113.99:5060", &request);
        assert!(is_relayed(&sent, method), "{sent:#?}");
    }
}

#[test]
fn one_address_gets_a_quarter_for_its_subscribers() {
    let mut settings = settings();
    settings.limits.response_contexts = 100;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let mut relayed = 0;
    for number in 0..100 {
        let sent = authenticated_call(&mut bench, &format!("n{number}"));
        relayed += usize::from(sent.iter().any(|text| text.starts_with("INVITE ")));
    }
    assert_eq!(relayed, 25);
}

#[test]
fn calls_of_strangers_that_last_leave_bytes_for_others() {
    let mut settings = settings();
    settings.limits.held_bytes = 1 << 20;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let target = format!("sip:{}@", "m".repeat(4_000));
    let mut refused = 0;
    for number in 0..200 {
        let source = format!("198.51.100.{number}:5060");
        let invite = stranger("bob", number, "")
            .replace(FLOODER, &source)
            .replace("sip:m@198", &format!("{target}198"));
        let sent = bench.receive(&source, &invite);
        let (_, last) = sent.last().expect("an answer");
        if last.starts_with("INVITE") {
            bench.receive(BOB, &accept(last));
            bench.wait(Duration::from_millis(100));
        } else {
            assert!(last.starts_with("SIP/2.0 503 "), "{last}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    let bytes = bench.exchange.dialog_stats().bytes;
    assert!(bytes <= (1 << 18) + 5_000, "{bytes} bytes");
    let sent = authenticated_call(&mut bench, "k");
    assert!(sent.iter().any(|text| text.starts_with("INVITE")));
}

#[test]
fn calls_that_grow_after_their_answer_leave_bytes_for_others() {
    let mut settings = settings();
    settings.limits.held_bytes = 1 << 20;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    let target = format!("sip:bob{}@{BOB}", "x".repeat(4_000));
    for number in 0..200 {
        let source = format!("198.51.100.{number}:5060");
        let invite = stranger("bob", number, "").replace(FLOODER, &source);
        let sent = bench.receive(&source, &invite);
        let (_, forwarded) = sent.last().expect("a copy");
        bench.receive(BOB, &crate::bench::accept_at(forwarded, &target));
        bench.wait(Duration::from_millis(100));
    }
    assert!(bench.exchange.dialog_stats().confirmed > 70);
    let bytes = bench.exchange.dialog_stats().bytes;
    // The last one entered when there was room for it.
    assert!(bytes <= (1 << 18) + 500, "{bytes} bytes");
}
