//! Call forwarding: when the calls of a callee go elsewhere, and what the next callee gets.

use crate::bench::{ALICE, BOB, register, request, settings, status};
use crate::routed::{AS_ALICE, Declared, NUMBER, Routed, routed, routed_with};
use sip_elements::metrics::{DiversionCause, Refused};
use sip_elements::services::{CallForwarding, NoAnswer};
use sip_transport::IpNet;
use std::time::Duration;

pub(crate) const CAROL: &str = "192.0.2.30:5060";
pub(crate) const DAVE: &str = "192.0.2.40:5060";
pub(crate) const BOBS_OTHER: &str = "192.0.2.21:5060";
pub(crate) const AS_BOB: &str = "sip:bob@example.org";
pub(crate) const TO_CAROL: &str = "sip:carol@example.org";
pub(crate) const STRANGER: &str = "sip:mallory@elsewhere.example";

pub(crate) fn register_at(node: &mut Routed, user: &str, at: &str) {
    let register = register(user, at, 1, "").replace("reg-", &format!("reg-{at}-"));
    let sent = node.bench.receive(at, &register);
    assert_eq!(status(&sent[0].1), 200);
}

/// Bob and Carol are registered.
pub(crate) fn two_phones(declared: Declared) -> Routed {
    let mut node = routed(declared);
    register_at(&mut node, "bob", BOB);
    register_at(&mut node, "carol", CAROL);
    node
}

pub(crate) fn forward(node: &Routed, user: &str, forwarding: CallForwarding) {
    let services = &node.bench.shared.services;
    let forwardings = &services.forwardings;
    assert!(forwardings.set(user.as_bytes(), b"example.org", Some(forwarding)));
}

pub(crate) fn uri(target: &str) -> Box<[u8]> {
    target.as_bytes().into()
}

pub(crate) fn always(target: &str) -> CallForwarding {
    CallForwarding {
        always: Some(uri(target)),
        ..CallForwarding::default()
    }
}

pub(crate) fn busy(target: &str) -> CallForwarding {
    CallForwarding {
        busy: Some(uri(target)),
        ..CallForwarding::default()
    }
}

pub(crate) fn no_answer(target: &str) -> CallForwarding {
    CallForwarding {
        no_answer: Some(NoAnswer {
            after: Duration::from_secs(20),
            target: target.as_bytes().into(),
        }),
        ..CallForwarding::default()
    }
}

pub(crate) fn not_registered(target: &str) -> CallForwarding {
    CallForwarding {
        not_registered: Some(uri(target)),
        ..CallForwarding::default()
    }
}

pub(crate) type Sent = Vec<(String, String)>;

pub(crate) fn named(sent: Vec<(std::net::SocketAddr, String)>) -> Sent {
    let sent = sent.into_iter();
    sent.map(|(to, text)| (to.to_string(), text)).collect()
}

/// Somebody calls. Returns what leaves, without the 100.
pub(crate) fn call_from(node: &mut Routed, from: &str, to: &str) -> Sent {
    let number = node.bench.exchange.dialog_stats().created;
    let invite = request("INVITE", to, from, &format!("i{number}"), "");
    let invite = invite.replace("call-1", &format!("call-{number}"));
    let mut sent = named(node.bench.receive(ALICE, &invite));
    sent.retain(|(_, text)| !text.starts_with("SIP/2.0 100 "));
    sent
}

pub(crate) fn call_bob(node: &mut Routed) -> Sent {
    call_from(node, AS_ALICE, AS_BOB)
}

/// Waits, and returns what leaves except retransmissions of INVITEs to `to`.
pub(crate) fn wait(node: &mut Routed, seconds: u64) -> Sent {
    named(node.bench.wait(Duration::from_secs(seconds)))
}

/// The INVITE in these messages.
pub(crate) fn invite_in(sent: &Sent) -> (String, String) {
    let mut invites = sent.iter().filter(|(_, text)| text.starts_with("INVITE "));
    let invite = invites
        .next()
        .unwrap_or_else(|| panic!("{sent:#?}"))
        .clone();
    assert_eq!(invites.next(), None, "{sent:#?}");
    invite
}

pub(crate) fn to(sent: &Sent) -> Vec<&str> {
    sent.iter().map(|(to, _)| to.as_str()).collect()
}

pub(crate) fn values<'t>(message: &'t str, name: &str) -> Vec<&'t str> {
    let prefix = format!("{name}: ");
    let lines = message.split("\r\n");
    lines
        .filter_map(|line| line.strip_prefix(&prefix))
        .collect()
}

pub(crate) fn diverted(node: &Routed, cause: DiversionCause) -> u64 {
    node.bench.metrics.diversions[cause as usize].value()
}

pub(crate) fn refused(node: &Routed) -> u64 {
    node.bench.metrics.refusals[Refused::Diversion as usize].value()
}

/// The status that the caller gets, if this is all that is sent.
pub(crate) fn caller_got(sent: &Sent) -> u16 {
    assert_eq!(to(sent), [ALICE], "{sent:#?}");
    status(&sent[0].1)
}

#[test]
fn all_calls_go_to_the_target_and_the_phones_do_not_ring() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", always(TO_CAROL));
    let sent = call_bob(&mut node);
    assert_eq!(to(&sent), [CAROL]);
    let invite = &sent[0].1;
    assert!(invite.starts_with(&format!("INVITE sip:carol@{CAROL} SIP/2.0")));
    assert_eq!(values(invite, "To"), ["<sip:bob@example.org>"]);
    let diversion = "<sip:bob@example.org>;reason=unconditional;counter=1";
    assert_eq!(values(invite, "Diversion"), [diversion]);
    let history = [
        "<sip:bob@example.org>;index=1",
        "<sip:carol@example.org;cause=302>;index=1.1;mp=1",
    ];
    assert_eq!(values(invite, "History-Info"), history);
    let sent = node.reply(&sent[0], "200 OK");
    assert_eq!(caller_got(&sent), 200);
    assert_eq!(diverted(&node, DiversionCause::Always), 1);
}

#[test]
fn calls_without_forwarding_are_unchanged_beside_a_subscriber_who_forwards() {
    let mut node = two_phones(Declared::default());
    forward(&node, "carol", always(AS_BOB));
    let sent = call_bob(&mut node);
    assert_eq!(to(&sent), [BOB]);
    assert_eq!(values(&sent[0].1, "Diversion"), [""; 0]);
    assert_eq!(caller_got(&node.reply(&sent[0], "486 Busy Here")), 486);
}

#[test]
fn a_busy_phone_sends_the_call_on_and_a_declined_call_ends() {
    for (refusal, is_forwarded) in [
        ("486 Busy Here", true),
        ("600 Busy Everywhere", false),
        ("603 Decline", false),
        ("404 Not Found", false),
        ("480 Temporarily Unavailable", false),
        ("302 Moved", false),
    ] {
        let mut node = two_phones(Declared::default());
        forward(&node, "bob", busy(TO_CAROL));
        let first = call_bob(&mut node);
        let sent = node.reply(&first[0], refusal);
        if is_forwarded {
            assert_eq!(to(&sent), [CAROL], "{refusal}");
            let diversion = "<sip:bob@example.org>;reason=user-busy;counter=1";
            assert_eq!(values(&sent[0].1, "Diversion"), [diversion]);
        } else {
            assert_eq!(caller_got(&sent).to_string(), refusal[..3]);
        }
    }
}

#[test]
fn the_response_of_the_phone_goes_back_if_the_target_does_no_better() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", busy(TO_CAROL));
    let first = call_bob(&mut node);
    let second = node.reply(&first[0], "486 Busy Here");
    let sent = node.reply(&second[0], "480 Gone");
    assert_eq!(caller_got(&sent), 486);
}

#[test]
fn a_call_is_busy_when_it_has_ended_at_all_phones() {
    let mut node = two_phones(Declared::default());
    register_at(&mut node, "bob", BOBS_OTHER);
    forward(&node, "bob", busy(TO_CAROL));
    let phones = call_bob(&mut node);
    assert_eq!(phones.len(), 2);
    assert_eq!(node.reply(&phones[0], "486 Busy Here"), []);
    let sent = node.reply(&phones[1], "486 Busy Here");
    assert_eq!(to(&sent), [CAROL]);
}

#[test]
fn a_call_that_another_phone_answers_is_not_forwarded() {
    let mut node = two_phones(Declared::default());
    register_at(&mut node, "bob", BOBS_OTHER);
    forward(&node, "bob", busy(TO_CAROL));
    let phones = call_bob(&mut node);
    assert_eq!(node.reply(&phones[0], "486 Busy Here"), []);
    node.reply(&phones[1], "180 Ringing");
    assert_eq!(caller_got(&node.reply(&phones[1], "200 OK")), 200);
    assert!(wait(&mut node, 600).iter().all(|(to, _)| to != CAROL));
}

#[test]
fn a_call_that_is_not_answered_goes_on_and_its_phone_stops_ringing() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", no_answer(TO_CAROL));
    let first = call_bob(&mut node);
    node.reply(&first[0], "180 Ringing");
    assert_eq!(wait(&mut node, 19), []);
    let sent = wait(&mut node, 2);
    let cancel = &sent[0];
    assert!(
        cancel.0 == BOB && cancel.1.starts_with("CANCEL "),
        "{sent:#?}"
    );
    let second = invite_in(&sent);
    assert_eq!(second.0, CAROL);
    let diversion = "<sip:bob@example.org>;reason=no-answer;counter=1";
    assert_eq!(values(&second.1, "Diversion"), [diversion]);
    assert_eq!(node.reply(&first[0], "487 Request Terminated"), []);
    assert_eq!(caller_got(&node.reply(&second, "200 OK")), 200);
    assert_eq!(diverted(&node, DiversionCause::NoAnswer), 1);
}

#[test]
fn a_silent_phone_does_not_answer_either() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", no_answer(TO_CAROL));
    let first = call_bob(&mut node);
    assert_eq!(first.len(), 1);
    let second = invite_in(
        &wait(&mut node, 21)
            .into_iter()
            .filter(|it| it.0 == CAROL)
            .collect(),
    );
    assert_eq!(caller_got(&node.reply(&second, "200 OK")), 200);
}

#[test]
fn a_phone_that_answers_while_it_is_cancelled_gets_the_call() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", no_answer(TO_CAROL));
    let first = call_bob(&mut node);
    node.reply(&first[0], "180 Ringing");
    let second = invite_in(&wait(&mut node, 21));
    node.reply(&second, "180 Ringing");
    let sent = node.reply(&first[0], "200 OK");
    let answer = sent.iter().find(|(to, _)| to == ALICE).expect("an answer");
    assert_eq!(status(&answer.1), 200);
    let cancel = sent.iter().find(|(to, _)| to == CAROL).expect("a CANCEL");
    assert!(cancel.1.starts_with("CANCEL "), "{cancel:?}");
}

#[test]
fn a_caller_who_gives_up_is_not_forwarded() {
    let mut node = two_phones(Declared::default());
    let all = CallForwarding {
        busy: Some(uri(TO_CAROL)),
        not_registered: Some(uri(TO_CAROL)),
        ..no_answer(TO_CAROL)
    };
    forward(&node, "bob", all);
    let first = call_bob(&mut node);
    node.reply(&first[0], "180 Ringing");
    let cancel = request("CANCEL", AS_BOB, AS_ALICE, "i0", "").replace("call-1", "call-0");
    let sent = named(node.bench.receive(ALICE, &cancel));
    assert_eq!(to(&sent), [BOB, ALICE]);
    let sent = node.reply(&first[0], "486 Busy Here");
    assert_eq!(caller_got(&sent), 486);
    assert!(wait(&mut node, 600).iter().all(|(to, _)| to != CAROL));
    assert_eq!(node.bench.dialogs(), (0, 0));
}

#[test]
fn a_call_that_reaches_no_phone_goes_on() {
    let mut node = two_phones(Declared::default());
    forward(&node, "dave", not_registered(TO_CAROL));
    let sent = call_from(&mut node, AS_ALICE, "sip:dave@example.org");
    assert_eq!(to(&sent), [CAROL]);
    let diversion = "<sip:dave@example.org>;reason=unavailable;counter=1";
    assert_eq!(values(&sent[0].1, "Diversion"), [diversion]);

    let mut node = two_phones(Declared::default());
    forward(&node, "bob", not_registered(TO_CAROL));
    let first = call_bob(&mut node);
    assert_eq!(to(&first), [BOB], "his phone is registered");
    let sent = node.reply(&first[0], "480 Temporarily Unavailable");
    assert_eq!(to(&sent), [CAROL]);

    let mut node = two_phones(Declared::default());
    forward(&node, "bob", not_registered(TO_CAROL));
    let first = call_bob(&mut node);
    node.reply(&first[0], "180 Ringing");
    let sent = node.reply(&first[0], "480 Temporarily Unavailable");
    assert_eq!(caller_got(&sent), 480, "it rang");
}

#[test]
fn a_secure_call_is_not_forwarded_over_an_insecure_way() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", always(TO_CAROL));
    let sent = call_from(&mut node, AS_ALICE, "sips:bob@example.org");
    assert_eq!(caller_got(&sent), 480);
}

#[test]
fn only_calls_are_forwarded() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", always(TO_CAROL));
    let message = request("MESSAGE", AS_BOB, AS_ALICE, "m1", "");
    assert_eq!(to(&named(node.bench.receive(ALICE, &message))), [BOB]);
}

#[test]
fn two_subscribers_who_forward_to_each_other_make_no_loop() {
    let mut node = two_phones(Declared::default());
    forward(&node, "bob", always(TO_CAROL));
    forward(&node, "carol", always(AS_BOB));
    let sent = call_bob(&mut node);
    assert_eq!(caller_got(&sent), 482);
    assert!(sent[0].1.contains("Call forwarding loop"), "{}", sent[0].1);
    assert_eq!(node.bench.dialogs(), (0, 0));

    forward(&node, "bob", busy(TO_CAROL));
    forward(&node, "carol", busy(AS_BOB));
    let first = call_from(&mut node, AS_ALICE, "sip:bob@example.org");
    let second = node.reply(&first[0], "486 Busy Here");
    assert_eq!(to(&second), [CAROL]);
    assert_eq!(caller_got(&node.reply(&second[0], "486 Busy Here")), 486);

    forward(&node, "bob", always(AS_BOB));
    let sent = call_from(&mut node, AS_ALICE, "sip:bob@example.org");
    assert_eq!(caller_got(&sent), 482, "to himself");
}

#[test]
fn a_chain_of_forwarding_is_bounded() {
    for (links, expected) in [(5, 200), (6, 480)] {
        let mut node = two_phones(Declared::default());
        forward(&node, "bob", always("sip:user1@example.org"));
        for link in 1..links {
            let user = format!("user{link}");
            let next = format!("sip:user{}@example.org", link + 1);
            let next = if link + 1 == links { TO_CAROL } else { &next };
            forward(&node, &user, always(next));
        }
        let sent = call_bob(&mut node);
        if expected == 200 {
            assert_eq!(to(&sent), [CAROL]);
            let by: Vec<&str> = values(&sent[0].1, "Diversion");
            assert_eq!(by.len(), 5);
            assert!(by[0].starts_with("<sip:user4@") && by[4].starts_with("<sip:bob@"));
            let last = "<sip:carol@example.org;cause=302>;index=1.1.1.1.1.1;mp=1.1.1.1.1";
            assert_eq!(values(&sent[0].1, "History-Info").last(), Some(&last));
        } else {
            assert_eq!(caller_got(&sent), 480);
        }
    }
}

/// Like [`two_phones`], where both are trusted.
fn trusted_phones() -> Routed {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.trusted_peers = "192.0.2.0/24".parse::<IpNet>().into_iter().collect();
    let mut node = routed_with(settings, Declared::default());
    register_at(&mut node, "carol", CAROL);
    forward(&node, "bob", always(TO_CAROL));
    node
}

#[test]
fn the_diversions_of_other_servers_count() {
    let mut node = trusted_phones();
    let history = "History-Info: <sip:x@h>;index=1, <sip:bob@example.org>;index=1.1\n";
    let four = "Diversion: <sip:x@h>;reason=unknown\n".repeat(4) + history;
    let invite = request("INVITE", AS_BOB, AS_ALICE, "i1", &four);
    let sent = named(node.bench.receive(ALICE, &invite));
    let (_, copy) = invite_in(&sent);
    assert_eq!(values(&copy, "Diversion").len(), 5);
    let diversion = "<sip:bob@example.org>;reason=unconditional;counter=1";
    assert_eq!(values(&copy, "Diversion")[0], diversion, "the newest first");
    let last = "<sip:carol@example.org;cause=302>;index=1.1.1;mp=1.1";
    assert_eq!(values(&copy, "History-Info").last(), Some(&last));

    let mut node = trusted_phones();
    let five = "Diversion: <sip:x@h>;reason=unknown\n".repeat(5);
    let invite = request("INVITE", AS_BOB, AS_ALICE, "i1", &five);
    let sent = named(node.bench.receive(ALICE, &invite));
    assert_eq!(status(&sent.last().expect("a response").1), 480);
}

#[test]
fn the_next_callee_forwards_with_its_own_settings() {
    let mut node = two_phones(Declared::default());
    register_at(&mut node, "dave", DAVE);
    forward(&node, "bob", busy(TO_CAROL));
    forward(&node, "carol", no_answer("sip:dave@example.org"));
    let first = call_bob(&mut node);
    let second = node.reply(&first[0], "486 Busy Here");
    node.reply(&second[0], "180 Ringing");
    let third = invite_in(&wait(&mut node, 21));
    assert_eq!(third.0, DAVE);
    let by = [
        "<sip:carol@example.org>;reason=no-answer;counter=1",
        "<sip:bob@example.org>;reason=user-busy;counter=1",
    ];
    assert_eq!(values(&third.1, "Diversion"), by);
    assert_eq!(caller_got(&node.reply(&third, "200 OK")), 200);
}
#[test]
fn an_alias_leads_to_the_subscriber_and_to_its_forwarding() {
    let mut node = two_phones(Declared::default());
    let aliases = &node.bench.shared.services.aliases;
    aliases.set(b"+4989123", b"", Some(b"bob@example.org"));
    aliases.set(b"info", b"example.org", Some(b"carol@example.org"));
    // One step only.
    aliases.set(b"bob", b"example.org", Some(b"carol@example.org"));
    let sent = call_from(&mut node, AS_ALICE, NUMBER);
    assert_eq!(to(&sent), [BOB]);
    assert!(sent[0].1.contains("To: <sip:+4989123@example.org>"));
    let sent = call_from(&mut node, AS_ALICE, "sip:+4989123@192.0.2.1:5060");
    assert_eq!(to(&sent), [BOB], "at our address");
    forward(&node, "carol", busy(NUMBER));
    let sent = call_from(&mut node, AS_ALICE, "sip:info@example.org");
    assert_eq!(to(&sent), [CAROL]);
    let second = node.reply(&sent[0], "486 Busy Here");
    assert_eq!(to(&second), [BOB], "the number of the target is an alias");
}
