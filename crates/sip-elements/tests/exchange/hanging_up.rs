//! Which call a BYE ends, and when that call ended.

use crate::bench::{ALICE, BOB, Bench, accept, only, request};
use crate::live_calls::{acknowledged_call, from_alice, from_bob, node, refuse};
use sip_dialog::{Change, Ended};
use std::time::Duration;

/// Alice sends a BYE, and Bob answers it with this status. Returns what the node sends then.
fn bye_answered(bench: &mut Bench, answered: &str, status: &str) -> Vec<String> {
    let bye = only(bench.receive(ALICE, &from_alice(answered, "BYE", 2, "")));
    let sent = bench.receive(BOB, &refuse(&bye, status)).into_iter();
    sent.map(|(to, text)| format!("to {to}: {text}")).collect()
}

#[test]
fn the_sender_of_a_bye_has_left_whatever_the_other_party_says_to_it() {
    for (answer, ended) in [
        ("200 OK", 1),
        ("408 Request Timeout", 1),
        ("481 Call Does Not Exist", 1),
        ("500 No", 1),
        ("401 Unauthorized", 0),
        ("407 Proxy Authentication Required", 0),
    ] {
        let mut bench = node();
        let (_, answered) = acknowledged_call(&mut bench);
        bye_answered(&mut bench, &answered, answer);
        assert_eq!(bench.dialogs(), (0, 1 - ended), "{answer}");
        assert_eq!(bench.ended_by(Ended::ByCaller), ended, "{answer}");
    }
}

#[test]
fn a_party_that_refuses_a_bye_gets_one_that_it_can_accept() {
    for (answer, is_sent) in [
        ("200 OK", false),
        ("481 Call Does Not Exist", false),
        ("407 Proxy Authentication Required", false),
        ("420 Bad Extension", true),
        ("483 Too Many Hops", true),
        ("500 Server Internal Error", true),
    ] {
        let mut bench = node();
        let (_, answered) = acknowledged_call(&mut bench);
        let sent = bye_answered(&mut bench, &answered, answer);
        let is_bye = |text: &&String| text.starts_with(&format!("to {BOB}: BYE sip:bob@{BOB} "));
        assert_eq!(sent.iter().filter(is_bye).count(), usize::from(is_sent));
        assert_eq!(sent.len(), 1 + usize::from(is_sent), "{sent:#?}");
    }
}

#[test]
fn a_bye_without_an_answer_is_repeated_by_one_that_the_other_party_can_accept() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.wait(Duration::from_secs(31));
    assert_eq!(bench.dialogs(), (0, 1));
    let sent = bench.wait(Duration::from_secs(2));
    let byes = sent.iter().filter(|(_, text)| text.contains("CSeq: 10"));
    assert_eq!(byes.count(), 1, "{sent:#?}");
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::ByCaller)),
        ((0, 0), 1)
    );
}

#[test]
fn a_call_ended_when_its_bye_arrived() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    bench.wait(Duration::from_secs(60));
    let arrived = bench.now;
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.wait(Duration::from_millis(300));
    bench.receive(BOB, &accept(&bye));
    let events = bench.events();
    let ended = events.last().expect("an event");
    assert_eq!(ended.change, Change::Ended(Ended::ByCaller));
    assert_eq!(ended.call.ended, Some(arrived));
}

#[test]
fn a_challenged_bye_is_not_the_end_of_its_call() {
    let mut bench = node();
    let (invite, answered) = acknowledged_call(&mut bench);
    bye_answered(&mut bench, &answered, "401 Unauthorized");
    bench.wait(Duration::from_secs(600));
    assert_eq!(bench.dialogs(), (0, 1));
    let arrived = bench.now;
    let bye = only(bench.receive(BOB, &from_bob(&invite, "BYE", 1)));
    bench.receive(ALICE, &accept(&bye));
    let events = bench.events();
    let ended = events.last().expect("an event");
    assert_eq!(ended.change, Change::Ended(Ended::ByCallee));
    assert_eq!(ended.call.ended, Some(arrived));
}

#[test]
fn a_rejected_bye_ends_nothing_if_the_other_party_cannot_get_a_better_one() {
    let highest = "CSeq: 2147483647";
    for (contact, cseq) in [
        ("", ""),
        ("Contact: <sip:alice@192.0.2.10:5060>\n", highest),
    ] {
        let mut bench = node();
        let written = format!("Contact: <sip:alice@{ALICE}>\n");
        let invite = crate::live_calls::invite("").replace(&written, contact);
        let (_, forwarded) = bench.receive(ALICE, &invite).pop().expect("a copy");
        let answered = only(bench.receive(BOB, &accept(&forwarded)));
        only(bench.receive(ALICE, &from_alice(&answered, "ACK", 1, "")));
        let mut bye = from_alice(&answered, "BYE", 2, "");
        if !cseq.is_empty() {
            bye = bye.replace("CSeq: 2", cseq);
        }
        let bye = only(bench.receive(ALICE, &bye));
        let sent = bench.receive(BOB, &refuse(&bye, "420 Bad Extension"));
        assert_eq!(sent.len(), 1, "{sent:#?}");
        assert_eq!(bench.dialogs(), (0, 1), "{contact}");
    }
}

#[test]
fn a_bye_to_the_former_address_of_a_party_does_not_end_the_call_alone() {
    const MOVED: &str = "192.0.2.29:5060";
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    let sent = bench.receive(ALICE, &from_alice(&answered, "UPDATE", 2, ""));
    let (_, forwarded) = sent.into_iter().next_back().expect("a copy");
    let moved = crate::bench::accept_at(&forwarded, &format!("sip:bob@{MOVED}"));
    bench.receive(BOB, &moved);
    let sent = bye_answered(&mut bench, &answered, "481 Call Does Not Exist");
    let to_bob = format!("to {MOVED}: BYE sip:bob@{MOVED} ");
    assert!(
        sent.iter().any(|text| text.starts_with(&to_bob)),
        "{sent:#?}"
    );
    assert_eq!(bench.dialogs(), (0, 0));
}

/// The parties choose Call-ID and tags. Alice makes a second call that has those of the first one, to a phone that answers with the tag of
/// Bob's.
#[test]
fn a_call_with_the_identifiers_of_another_one_does_not_change_that() {
    const CAROL: &str = "192.0.2.30:5060";
    const AS_CAROL: &str = "sip:carol@example.org";
    let mut bench = node();
    let contact = crate::bench::register("carol", CAROL, 1, "");
    only(bench.receive(CAROL, &contact));
    let (_, first) = acknowledged_call(&mut bench);
    let first_id = bench.events().first().expect("an event").call.id;

    let invite = request("INVITE", AS_CAROL, "sip:alice@example.org", "i2", "");
    let (_, forwarded) = bench.receive(ALICE, &invite).pop().expect("a copy");
    let to_carol = format!("sip:carol@{CAROL}");
    let accepted = crate::bench::accept_at(&forwarded, &to_carol);
    let second = only(bench.receive(CAROL, &accepted));
    let in_second = |method: &str, cseq| {
        from_alice(&second, method, cseq, "")
            .replace(&format!("sip:bob@{BOB}"), &to_carol)
            .replace("sip:bob@example.org", AS_CAROL)
            .replace(&format!("4bK{method}"), &format!("4bKother{method}"))
    };
    only(bench.receive(ALICE, &in_second("ACK", 1)));
    assert_eq!(bench.dialogs(), (0, 2));

    let bye = only(bench.receive(ALICE, &in_second("BYE", 2)));
    bench.receive(CAROL, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 1));
    let events = bench.events();
    let ended = events.last().expect("an event");
    assert!(matches!(ended.change, Change::Ended(_)), "{ended:?}");
    assert_ne!(ended.call.id, first_id, "the second call has ended");

    bye_answered(&mut bench, &first, "200 OK");
    assert_eq!(bench.dialogs(), (0, 0));
    let events = bench.events();
    assert_eq!(events.last().map(|event| event.call.id), Some(first_id));
}
