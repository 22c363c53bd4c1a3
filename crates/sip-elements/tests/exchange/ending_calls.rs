//! The end of a dialog's life: the BYEs that this server sends in the name of both parties.

use crate::bench::{ALICE, BOB, Bench, accept_at, only, recorded, request, settings, status};
use crate::live_calls::{acknowledged_call, from_alice};
use sip_dialog::Ended;
use sip_elements::Settings;
use sip_message::Message;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// A node that ends calls after an hour.
fn node() -> Bench {
    node_with(settings())
}

fn node_with(mut settings: Settings) -> Bench {
    settings.dialogs.bye_at_end = true;
    settings.proxy.dialog_lifetime = HOUR;
    crate::live_calls::node_with(settings)
}

/// The messages sent to an address.
pub(crate) fn to<'s>(sent: &'s [(std::net::SocketAddr, String)], address: &str) -> Vec<&'s str> {
    let to = sent.iter().filter(|(to, _)| to.to_string() == address);
    to.map(|(_, text)| text.as_str()).collect()
}

pub(crate) fn line<'t>(message: &'t str, name: &str) -> &'t str {
    let mut lines = message.split("\r\n");
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("{name} is missing: {message}"))
}

#[test]
fn both_parties_get_a_bye_in_the_name_of_the_other_one() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    let info = from_alice(&answered, "INFO", 7, "");
    let info = only(bench.receive(ALICE, &info));
    bench.receive(BOB, &crate::bench::accept(&info));
    bench.wait(Duration::from_secs(40));
    let sent = bench.wait(Duration::from_secs(3_570));
    let [bye] = to(&sent, BOB)[..] else {
        panic!("{sent:#?}")
    };
    assert!(
        bye.starts_with(&format!("BYE sip:bob@{BOB} SIP/2.0\r\n")),
        "{bye}"
    );
    assert_eq!(line(bye, "From"), "<sip:alice@example.org>;tag=a1");
    assert_eq!(line(bye, "To"), "<sip:bob@example.org>;tag=b1");
    assert_eq!(line(bye, "CSeq"), "100007 BYE");
    assert_eq!(line(bye, "Call-ID"), "call-1");
    let [bye] = to(&sent, ALICE)[..] else {
        panic!("{sent:#?}")
    };
    assert!(
        bye.starts_with(&format!("BYE sip:alice@{ALICE} SIP/2.0\r\n")),
        "{bye}"
    );
    assert_eq!(line(bye, "From"), "<sip:bob@example.org>;tag=b1");
    assert_eq!(line(bye, "To"), "<sip:alice@example.org>;tag=a1");
    assert_eq!(line(bye, "CSeq"), "100000 BYE");
    assert!(Message::parse(bye.as_bytes()).is_ok());
    assert_eq!(bench.ended_by(Ended::Expired), 1);
    assert_eq!(bench.dialogs(), (0, 0));

    // The answers go no further, and end the transactions.
    for (address, bye) in [(BOB, to(&sent, BOB)[0]), (ALICE, to(&sent, ALICE)[0])] {
        let answer = accept_at(bye, "sip:x@192.0.2.99");
        assert_eq!(bench.receive(address, &answer), []);
    }
    assert_eq!(bench.wait(Duration::from_secs(10)), []);
    bench.wait(Duration::from_secs(40));
    assert_eq!(bench.exchange.transaction_stats().clients_live, 0);
}

#[test]
fn a_party_that_does_not_answer_its_bye_costs_one_transaction() {
    let mut bench = node();
    acknowledged_call(&mut bench);
    bench.wait(HOUR + Duration::from_secs(1));
    for _ in 0..80 {
        bench.wait(Duration::from_millis(500));
    }
    assert_eq!(bench.exchange.transaction_stats().clients_live, 0);
    assert_eq!(bench.dialogs(), (0, 0));
}

#[test]
fn without_the_setting_no_party_gets_a_bye() {
    let mut settings = settings();
    settings.proxy.dialog_lifetime = HOUR;
    let mut bench = crate::live_calls::node_with(settings);
    acknowledged_call(&mut bench);
    assert_eq!(bench.wait(HOUR + Duration::from_secs(1)), []);
    assert_eq!(bench.ended_by(Ended::Expired), 1);
}

#[test]
fn a_bye_follows_the_routes_of_both_parties() {
    let proxies = ["192.0.2.40:5060", "192.0.2.41:5060"];
    let mut bench = node();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        &format!("Record-Route: <sip:{};lr>\n", proxies[0]),
    );
    let (_, forwarded) = bench.receive(ALICE, &invite).pop().expect("a copy");
    let accepted = crate::bench::accept(&forwarded);
    let above = format!("Record-Route: <sip:{};lr>\nRecord-Route: ", proxies[1]);
    let accepted = accepted.replacen("Record-Route: ", &above, 1);
    let answered = only(bench.receive(BOB, &accepted));
    assert_eq!((status(&answered), recorded(&answered).len()), (200, 3));
    // The ACK comes from the proxy next to Alice, which has removed its own Route.
    let ours = &recorded(&answered)[1];
    let ack = request(
        "ACK",
        &format!("sip:bob@{BOB}"),
        "sip:alice@example.org",
        "a1",
        &format!("Route: {ours}\nRoute: <sip:{};lr>\n", proxies[1]),
    )
    .replace(
        &format!("To: <sip:bob@{BOB}>"),
        "To: <sip:bob@example.org>;tag=b1",
    );
    only(bench.receive(proxies[0], &ack));
    let sent = bench.wait(HOUR + Duration::from_secs(1));
    let [to_callee] = to(&sent, proxies[1])[..] else {
        panic!("{sent:#?}")
    };
    assert!(
        to_callee.starts_with(&format!("BYE sip:bob@{BOB} ")),
        "{to_callee}"
    );
    assert_eq!(line(to_callee, "Route"), format!("<sip:{};lr>", proxies[1]));
    let [to_caller] = to(&sent, proxies[0])[..] else {
        panic!("{sent:#?}")
    };
    assert!(
        to_caller.starts_with(&format!("BYE sip:alice@{ALICE} ")),
        "{to_caller}"
    );
    assert_eq!(line(to_caller, "Route"), format!("<sip:{};lr>", proxies[0]));
}

#[test]
fn a_bye_goes_where_no_request_may_lead_as_little_as_others_do() {
    let mut bench = node();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let (_, forwarded) = bench.receive(ALICE, &invite).pop().expect("a copy");
    let accepted = accept_at(&forwarded, "sip:bob@127.0.0.1:8080");
    let answered = only(bench.receive(BOB, &accepted));
    let ack =
        from_alice(&answered, "ACK", 1, "").replace(&format!("bob@{BOB}"), "bob@127.0.0.1:8080");
    bench.receive(ALICE, &ack);
    let sent = bench.wait(HOUR + Duration::from_secs(1));
    let expected: Vec<std::net::SocketAddr> = vec![ALICE.parse().expect("an address")];
    let destinations: Vec<_> = sent.iter().map(|(to, _)| *to).collect();
    assert_eq!(destinations, expected);
}
