//! How long a call waits for a gateway, and for its answer at all.

use crate::bench::{ALICE, BOB, register, request, settings, status};
use crate::live_calls::refuse;
use crate::routed::{
    AS_ALICE, Declared, GW_A, GW_B, Routed, one, routed, routed_with, three_gateways, to_group,
};
use sip_routing::gateway::{State, Statistics};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn with_answer_timeout(group: &str) -> Declared {
    let mut gateways = three_gateways();
    for gateway in &mut gateways.gateways {
        gateway.wait.answer = Some(Duration::from_secs(45));
        gateway.health.misses = 1;
    }
    Declared {
        gateways,
        rules: vec![to_group(group)],
        ..Declared::default()
    }
}

fn statistics(node: &Routed, name: &str) -> Statistics {
    node.gateway(name).view(node.bench.now).statistics
}

/// What is sent in the next seconds, one by one.
fn sent_within(node: &mut Routed, seconds: u64) -> Vec<(String, String)> {
    let waits = (0..seconds).flat_map(|_| node.bench.wait(Duration::from_secs(1)));
    waits.map(|(to, text)| (to.to_string(), text)).collect()
}

/// The first line and the destination of each.
fn lines(sent: &[(String, String)]) -> Vec<String> {
    let line = |text: &str| text.split("\r\n").next().unwrap_or_default().to_owned();
    let method = |text: &str| line(text).split(' ').take(2).collect::<Vec<_>>().join(" ");
    sent.iter()
        .map(|(to, text)| format!("{} to {to}", method(text)))
        .collect()
}

#[test]
fn a_gateway_that_sends_100_and_nothing_more_is_given_up_after_its_time() {
    let mut node = routed(Declared::to_group("pstn"));
    let first = node.call();
    assert_eq!(node.reply(&first, "100 Trying"), []);
    assert_eq!(sent_within(&mut node, 31), []);
    let sent = sent_within(&mut node, 2);
    let expected = [
        format!("CANCEL sip:+4989123@{GW_A} to {GW_A}"),
        format!("INVITE sip:+4989123@{GW_B} to {GW_B}"),
    ];
    assert_eq!(lines(&sent)[..2], expected);
    let counted = statistics(&node, "a");
    assert_eq!((counted.timeouts, counted.failovers), (1, [0, 1, 0]));
    assert_eq!(node.live(), [0, 1, 0]);
}

#[test]
fn without_another_gateway_the_caller_gets_408_and_the_gateway_its_cancel() {
    let mut node = routed(Declared::to_group("only-a"));
    let call = node.call();
    node.reply(&call, "100 Trying");
    let sent = sent_within(&mut node, 33);
    assert!(lines(&sent)[0].starts_with("CANCEL "), "{sent:#?}");
    let (to, last) = one(node.reply(&call, "487 Request Terminated"));
    assert_eq!((to.as_str(), status(&last)), (ALICE, 408));
    assert_eq!(node.live(), [0, 0, 0]);
}

#[test]
fn a_gateway_that_rings_is_not_silent() {
    let mut node = routed(Declared::to_group("pstn"));
    let call = node.call();
    node.reply(&call, "180 Ringing");
    assert_eq!(sent_within(&mut node, 120), []);
    assert_eq!(status(&one(node.reply(&call, "200 OK")).1), 200);
}

#[test]
fn a_gateway_that_rings_for_too_long_is_cancelled_and_the_next_one_tried() {
    let mut node = routed(with_answer_timeout("pstn"));
    let first = node.call();
    for _ in 0..4 {
        node.reply(&first, "180 Ringing");
        assert_eq!(sent_within(&mut node, 11), []);
    }
    let sent = sent_within(&mut node, 2);
    let expected = [
        format!("CANCEL sip:+4989123@{GW_A} to {GW_A}"),
        format!("INVITE sip:+4989123@{GW_B} to {GW_B}"),
    ];
    assert_eq!(lines(&sent)[..2], expected);
    // A phone that is not picked up says nothing about the gateway.
    assert_eq!(node.gateway("a").state(node.bench.now), State::Unprobed);
    let counted = statistics(&node, "a");
    assert_eq!((counted.abandoned, counted.failovers), (1, [0, 1, 0]));
    // The answer of the first one crossed the CANCEL: the caller gets it, and the second one is cancelled.
    let sent = node.reply(&first, "200 OK");
    assert!(
        sent.iter()
            .any(|(to, text)| to == ALICE && status(text) == 200),
        "{sent:#?}"
    );
}

#[test]
fn after_early_media_no_other_gateway_is_tried() {
    let mut node = routed(with_answer_timeout("pstn"));
    let call = node.call();
    let media = crate::routed::response(&call.1, "183 Session Progress").replace(
        "Content-Length: 0\n\n",
        "Content-Type: application/sdp\nContent-Length: 5\n\nv=0\n",
    );
    node.bench.receive(GW_A, &media);
    let sent = sent_within(&mut node, 46);
    let cancel = format!("CANCEL sip:+4989123@{GW_A} to {GW_A}");
    assert!(lines(&sent).iter().all(|line| *line == cancel), "{sent:#?}");
    let (to, last) = one(node.reply(&call, "487 Request Terminated"));
    assert_eq!((to.as_str(), status(&last)), (ALICE, 408));
}

/// Lets a call ring for ten minutes.
fn ring_for_ever(mut node: Routed, call: &(String, String)) {
    for _ in 0..10 {
        node.bench.receive(&call.0, &refuse(&call.1, "180 Ringing"));
        assert_eq!(sent_within(&mut node, 59), [], "{}", call.0);
    }
    let sent = sent_within(&mut node, 11);
    let cancel = lines(&sent);
    let all_cancel = cancel.iter().all(|line| line.starts_with("CANCEL "));
    assert!(all_cancel && !cancel.is_empty(), "{sent:#?}");
    let (to, last) = one(node.reply(call, "487 Request Terminated"));
    assert_eq!((to.as_str(), status(&last)), (ALICE, 408));
    assert_eq!((node.live(), node.bench.dialogs()), ([0; 3], (0, 0)));
}

#[test]
fn no_call_rings_for_ever_however_often_it_rings() {
    let patient = || {
        let mut settings = settings();
        settings.challenge.clear();
        settings.proxy.max_ringing = 10 * MINUTE;
        routed_with(settings, Declared::to_group("pstn"))
    };
    let mut node = patient();
    let call = node.call();
    ring_for_ever(node, &call);
    let mut node = patient();
    node.bench.receive(BOB, &register("bob", BOB, 1, ""));
    let to_bob = request("INVITE", "sip:bob@example.org", AS_ALICE, "b1", "");
    let sent = node.bench.receive(ALICE, &to_bob);
    let phone = (BOB.to_owned(), sent.last().expect("a copy").1.clone());
    ring_for_ever(node, &phone);
}
