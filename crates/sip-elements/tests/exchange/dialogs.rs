//! Requests inside a dialog: what the proof in our Record-Route is bound to, and where it allows requests to go.

use crate::bench::{
    BOB, Bench, accept_at, answer_challenge, only, recorded, register, settings, status,
};
use sip_elements::Settings;
use sip_elements::metrics::DropReason;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The caller: a user of another domain, at an address of its own.
const MALLORY: &str = "192.0.2.66:5060";
const AS_MALLORY: &str = "sip:mallory@elsewhere.example";
const AS_BOB: &str = "sip:bob@example.org";
/// A host that has not asked for any traffic.
const VICTIM: &str = "203.0.113.7:5060";

/// Makes the branch of each request unique.
static BRANCH: AtomicUsize = AtomicUsize::new(0);

/// One party's view of a dialog.
#[derive(Clone, Debug)]
struct Party {
    at: &'static str,
    speaks_as: String,
    tag: &'static str,
    other: String,
    other_tag: &'static str,
    target: String,
    routes: Vec<String>,
}

impl Party {
    /// A request inside the dialog.
    fn request(&self, method: &str, extra: &str) -> String {
        let mut routes = String::new();
        for route in &self.routes {
            routes.extend(["Route: ", route, "\n"]);
        }
        format!(
            "{method} {} SIP/2.0\nVia: SIP/2.0/UDP {};branch=z9hG4bKd{}\nMax-Forwards: 70\n\
             From: <{}>;tag={}\nTo: <{}>;tag={}\nCall-ID: the-call\nCSeq: 2 {method}\n{routes}{extra}Content-Length: 0\n\n",
            self.target,
            self.at,
            BRANCH.fetch_add(1, Ordering::Relaxed),
            self.speaks_as,
            self.tag,
            self.other,
            self.other_tag,
        )
    }
}

fn contact(at: &str) -> String {
    format!("Contact: <sip:x@{at}>\n")
}

/// The parameters of a call from Mallory to Bob.
struct Plan {
    /// The URI in To. The call goes to Bob in any case.
    to: &'static str,
    /// The URI in From of Bob's answer.
    from_in_answer: &'static str,
    caller_contact: String,
    ringing: Option<String>,
    callee_contact: String,
    callee_tag: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            to: AS_BOB,
            from_in_answer: AS_MALLORY,
            caller_contact: format!("sip:x@{MALLORY}"),
            ringing: None,
            callee_contact: format!("sip:bob@{BOB}"),
            callee_tag: "b1",
        }
    }
}

fn bench() -> Bench {
    bench_with(settings())
}

/// A node with these settings at which Bob is registered.
fn bench_with(settings: Settings) -> Bench {
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench
}

/// A call from Mallory that Bob answers. Returns the dialog as each party sees it, the caller first.
fn call(bench: &mut Bench, plan: &Plan) -> (Party, Party) {
    let invite = format!(
        "INVITE {AS_BOB} SIP/2.0\nVia: SIP/2.0/UDP {MALLORY};branch=z9hG4bKd{}\nMax-Forwards: 70\n\
         From: <{AS_MALLORY}>;tag=m1\nTo: <{}>\nCall-ID: the-call\nCSeq: 1 INVITE\n\
         Contact: <{}>\nContent-Length: 0\n\n",
        BRANCH.fetch_add(1, Ordering::Relaxed),
        plan.to,
        plan.caller_contact
    );
    let sent = bench.receive(MALLORY, &invite);
    let forwarded = sent
        .into_iter()
        .find(|(_, text)| text.starts_with("INVITE"))
        .expect("it is forwarded")
        .1;
    let mut early = None;
    if let Some(contact) = &plan.ringing {
        let ringing = accept_at(&forwarded, contact).replace("200 OK", "180 Ringing");
        let ringing = ringing.replace("tag=b1", &format!("tag={}", plan.callee_tag));
        early = Some(only(bench.receive(BOB, &ringing)));
    }
    let accepted =
        accept_at(&forwarded, &plan.callee_contact).replace(AS_MALLORY, plan.from_in_answer);
    let accepted = accepted.replace("tag=b1", &format!("tag={}", plan.callee_tag));
    let answered = only(bench.receive(BOB, &accepted));
    let mut routes = recorded(early.as_ref().unwrap_or(&answered));
    routes.reverse();
    let caller = Party {
        at: MALLORY,
        speaks_as: AS_MALLORY.to_owned(),
        tag: "m1",
        other: AS_BOB.to_owned(),
        other_tag: plan.callee_tag,
        target: plan.callee_contact.clone(),
        routes,
    };
    let callee = Party {
        at: BOB,
        speaks_as: plan.to.to_owned(),
        tag: plan.callee_tag,
        other: AS_MALLORY.to_owned(),
        other_tag: "m1",
        target: plan.caller_contact.clone(),
        routes: recorded(&forwarded),
    };
    (caller, callee)
}

/// Returns where a request is forwarded to, or the status of the error response.
fn fate(bench: &mut Bench, from: &str, request: &str) -> Result<String, u16> {
    let sent = bench.receive(from, request);
    let method = request.split(' ').next().unwrap_or_default();
    if let Some((to, _)) = sent.iter().find(|(_, text)| text.starts_with(method)) {
        return Ok(to.to_string());
    }
    let (_, response) = sent
        .last()
        .cloned()
        .unwrap_or((([0; 4], 0).into(), String::new()));
    Err(status(&response))
}

fn relayed(bench: &mut Bench, party: &Party, method: &str) -> Result<String, u16> {
    let request = party.request(method, "");
    fate(bench, party.at, &request)
}

/// Checks that the request is not forwarded: its dialog is unknown, or its sender must authenticate first.
fn assert_refused(bench: &mut Bench, party: &Party, why: &str) {
    let fate = relayed(bench, party, "INFO");
    assert!(matches!(fate, Err(407 | 481)), "{why}: {fate:?}");
}

#[test]
fn each_party_reaches_the_other_and_acknowledges() {
    let mut bench = bench();
    let (caller, callee) = call(&mut bench, &Plan::default());
    for method in ["ACK", "INFO", "BYE"] {
        assert_eq!(relayed(&mut bench, &caller, method), Ok(BOB.to_owned()));
        assert_eq!(relayed(&mut bench, &callee, method), Ok(MALLORY.to_owned()));
    }
    assert_eq!(bench.metrics.unproven.value(), 0);
}

#[test]
fn everything_that_a_proof_is_bound_to_counts() {
    let mut bench = bench();
    let (caller, callee) = call(&mut bench, &Plan::default());
    for party in [&caller, &callee] {
        let good = |replaced: &str, by: &str| {
            let request = party.request("INFO", "");
            let altered = request.replacen(replaced, by, 1);
            assert!(
                altered != request || replaced == by,
                "{replaced:?} {request}"
            );
            altered
        };
        let start = format!("INFO {} ", party.target);
        let user = party.target.split('@').next().unwrap_or_default();
        let tag = |tag| format!(">;tag={tag}\n");
        let ours = party.routes.last().cloned().unwrap_or_default();
        let side = format!(
            ";ck={}",
            &ours[ours.find(";ck=").expect("a proof") + 4..][..1]
        );
        let rows: &[(&str, String)] = &[
            ("another call", good("the-call", "the-other-call")),
            ("another From tag", good(&tag(party.tag), ">;tag=zz\n")),
            ("another To tag", good(&tag(party.other_tag), ">;tag=zz\n")),
            ("no To tag", good(&tag(party.other_tag), ">\n")),
            (
                "another user",
                good(&start, &start.replace(user, "sip:someone")),
            ),
            (
                "another host",
                good(&start, &format!("INFO sip:x@{VICTIM} ")),
            ),
            (
                "another port",
                good(&start, &start.replace(":5060 ", ":5070 ")),
            ),
            (
                "another transport",
                good(&start, &start.replace(":5060 ", ":5060;transport=tcp ")),
            ),
            (
                "another maddr",
                good(&start, &start.replace(":5060 ", ":5060;maddr=203.0.113.7 ")),
            ),
            (
                "more Route",
                good(
                    "Content-Length",
                    &format!("Route: <sip:{VICTIM};lr>\nContent-Length"),
                ),
            ),
            (
                "the other side",
                good(&side, if side == ";ck=e" { ";ck=s" } else { ";ck=e" }),
            ),
            (
                "not ours",
                good(&ours, &ours.replace("192.0.2.1", "192.0.2.250")),
            ),
            ("no proof", good(&ours, "<sip:192.0.2.1;lr>")),
        ];
        // The proof for Bob is created before Bob's From tag is known.
        let unbound = (party.at == BOB).then_some("another From tag");
        for (what, request) in rows {
            let fate = fate(&mut bench, party.at, request);
            if Some(*what) == unbound {
                assert_eq!(fate, Ok(MALLORY.to_owned()), "{what}");
            } else {
                assert!(fate.is_err(), "{what}: {fate:?} {request}");
            }
        }
        assert!(relayed(&mut bench, party, "INFO").is_ok(), "as it was");
    }
    let (mut as_callee, mut as_caller) = (caller.clone(), callee.clone());
    as_callee.routes = callee.routes;
    as_caller.routes = caller.routes;
    assert_eq!(relayed(&mut bench, &as_callee, "INFO"), Err(481));
    assert_refused(&mut bench, &as_caller, "the other side");
}

/// The caller as it would speak in the name of the callee, with these routes.
fn impostor(caller: &Party, routes: Vec<String>) -> Party {
    Party {
        speaks_as: caller.other.clone(),
        tag: caller.other_tag,
        other: caller.speaks_as.clone(),
        other_tag: caller.tag,
        target: format!("sip:x@{MALLORY}"),
        routes,
        ..caller.clone()
    }
}

#[test]
fn a_caller_gets_no_proof_of_its_callee() {
    for caller_contact in [
        format!("sip:x@{MALLORY}"),
        // It is reached by its flow only, so there are two values of ours.
        "sip:x@192.0.2.67:5060".to_owned(),
    ] {
        let mut bench = bench();
        let plan = Plan {
            caller_contact: caller_contact.clone(),
            ..Plan::default()
        };
        let (caller, callee) = call(&mut bench, &plan);
        assert_eq!(relayed(&mut bench, &callee, "INFO"), Ok(MALLORY.to_owned()));
        for route in &caller.routes {
            let mut mallory = impostor(&caller, vec![route.clone()]);
            mallory.target.clone_from(&caller_contact);
            assert_refused(&mut bench, &mallory, route);
            assert!(relayed(&mut bench, &mallory, "BYE").is_err(), "{route}");
        }
        assert_eq!(relayed(&mut bench, &caller, "INFO"), Ok(BOB.to_owned()));
    }
}

#[test]
fn a_response_that_creates_no_dialog_has_no_proof() {
    for status in ["302 Moved", "486 Busy Here"] {
        let mut bench = bench();
        let invite = format!(
            "INVITE {AS_BOB} SIP/2.0\nVia: SIP/2.0/UDP {MALLORY};branch=z9hG4bKn1\nMax-Forwards: 70\n\
             From: <{AS_MALLORY}>;tag=m1\nTo: <{AS_BOB}>\nCall-ID: the-call\nCSeq: 1 INVITE\n\
             Contact: <sip:x@192.0.2.67:5060>\nContent-Length: 0\n\n"
        );
        let sent = bench.receive(MALLORY, &invite);
        let (_, forwarded) = sent.last().expect("a copy");
        assert_eq!(recorded(forwarded).len(), 2);
        let answer = accept_at(forwarded, &format!("sip:bob@{BOB}")).replace("200 OK", status);
        let sent = bench.receive(BOB, &answer);
        let text = format!("SIP/2.0 {status}");
        let found = sent.iter().find(|(_, sent)| sent.starts_with(&text));
        let (_, passed) = found.unwrap_or_else(|| panic!("{status}: {sent:#?}"));
        let values = recorded(passed);
        assert_eq!(values.len(), 2, "{passed}");
        for value in values {
            assert!(value.contains(";ck=0"), "{value}");
        }
    }
}

#[test]
fn a_proof_of_an_earlier_call_places_no_call_and_relays_nothing() {
    let mut bench = bench();
    let (caller, _) = call(&mut bench, &Plan::default());
    let route = format!("Route: {}\n", caller.routes[0]);
    for (tag, expected) in [
        (";tag=\"\"", 400),
        (";tag=\" \"", 400),
        (";tag=", 400),
        (";tag", 400),
        (";tag=b1;tag=b1", 400),
        (";tag=\"b1\"", 400),
        (";tag=b1", 481),
        (";tag=x", 481),
        ("", 403),
    ] {
        for target in [
            format!("sip:+1900@{VICTIM}"),
            "sip:1@127.0.0.1:8080;transport=tcp".into(),
        ] {
            let invite = format!(
                "INVITE {target} SIP/2.0\nVia: SIP/2.0/UDP {MALLORY};branch=z9hG4bKd{}\nMax-Forwards: 70\n\
                 From: <{AS_MALLORY}>;tag=m1\nTo: <sip:+1900@{VICTIM}>{tag}\nCall-ID: the-call\nCSeq: 3 INVITE\n\
                 {route}Contact: <sip:x@{MALLORY}>\nContent-Length: 0\n\n",
                BRANCH.fetch_add(1, Ordering::Relaxed)
            );
            assert_eq!(fate(&mut bench, MALLORY, &invite), Err(expected), "{tag}");
        }
    }
    assert_eq!(bench.metrics.unproven.value(), 4);
}

#[test]
fn an_ack_without_proof_is_dropped_and_counted() {
    let mut bench = bench();
    let (mut caller, _) = call(&mut bench, &Plan::default());
    caller.target = format!("sip:x@{VICTIM}");
    assert_eq!(relayed(&mut bench, &caller, "ACK"), Err(0));
    assert_eq!(
        bench.metrics.drops[DropReason::StrayAck as usize].value(),
        1
    );
}

#[test]
fn a_dialog_gives_no_right_to_another_users_name() {
    let mut bench = bench();
    let (mut caller, mut callee) = call(&mut bench, &Plan::default());
    caller.speaks_as = "sip:alice@example.org".to_owned();
    let refused = only(bench.receive(MALLORY, &caller.request("MESSAGE", "")));
    assert_eq!(status(&refused), 407);
    assert_eq!(relayed(&mut bench, &caller, "ACK"), Err(0), "nor an ACK");
    // A sender that authenticates as that user may continue the dialog under that name (RFC 4916).
    let credentials = answer_challenge(&refused, "alice", "MESSAGE", &caller.target);
    let proven = caller.request("MESSAGE", &format!("Proxy-Authorization: {credentials}\n"));
    assert_eq!(fate(&mut bench, MALLORY, &proven), Ok(BOB.to_owned()));
    // We know nothing about users of other domains.
    caller.speaks_as = "sip:alice@elsewhere.example".to_owned();
    assert_eq!(relayed(&mut bench, &caller, "MESSAGE"), Ok(BOB.to_owned()));
    callee.speaks_as = "sip:alice@example.org".to_owned();
    assert_eq!(relayed(&mut bench, &callee, "MESSAGE"), Err(407));
}

#[test]
fn a_refreshed_target_is_reached_and_the_first_one_stays() {
    let mut bench = bench();
    let (caller, mut callee) = call(&mut bench, &Plan::default());
    let moved = "192.0.2.67:5060";
    callee.target = format!("sip:x@{moved}");
    assert_refused(&mut bench, &callee, "not yet");
    let reinvite = caller.request("INVITE", &contact(moved));
    let forwarded = bench
        .receive(MALLORY, &reinvite)
        .pop()
        .expect("forwarded")
        .1;
    assert_refused(&mut bench, &callee, "not accepted");
    bench.receive(BOB, &accept_at(&forwarded, "sip:bob@192.0.2.21:5070"));
    assert_eq!(relayed(&mut bench, &callee, "INFO"), Ok(moved.to_owned()));
    let mut caller_now = caller.clone();
    caller_now.target = "sip:bob@192.0.2.21:5070".to_owned();
    assert_eq!(
        relayed(&mut bench, &caller_now, "INFO"),
        Ok("192.0.2.21:5070".to_owned())
    );
    assert_eq!(relayed(&mut bench, &caller, "INFO"), Ok(BOB.to_owned()));
    assert_eq!(bench.metrics.refreshed_targets.value(), 2);
    // The target of another dialog in the same call has not changed.
    let forked = reinvite.replace("tag=b1", "tag=b2").replace("4bKd", "4bKf");
    assert_eq!(fate(&mut bench, MALLORY, &forked), Err(481));

    let bye = caller.request("BYE", "");
    let forwarded = bench.receive(MALLORY, &bye).pop().expect("forwarded").1;
    bench.receive(BOB, &accept_at(&forwarded, "sip:bob@192.0.2.21:5070"));
    assert_eq!(bench.metrics.refreshed_targets.value(), 0);
    assert_refused(&mut bench, &callee, "it is over");
}

/// With equal tags, the callee's Contact would also set the target of the callee's own requests.
#[test]
fn a_callee_that_takes_the_tag_of_the_caller_names_no_target_for_its_own_requests() {
    let mut settings = settings();
    settings.limits.amplification = 100;
    let mut bench = bench_with(settings);
    let plan = Plan {
        ringing: Some(format!("sip:bob@{BOB}")),
        callee_contact: format!("sip:x@{VICTIM}"),
        callee_tag: "m1",
        ..Plan::default()
    };
    let (_, mut callee) = call(&mut bench, &plan);
    callee.target = plan.callee_contact;
    assert_refused(&mut bench, &callee, "its own Contact");
}

#[test]
fn a_refusal_refreshes_nothing() {
    let mut bench = bench();
    let (caller, mut callee) = call(&mut bench, &Plan::default());
    let moved = "192.0.2.67:5060";
    let update = caller.request("UPDATE", &contact(moved));
    let forwarded = bench.receive(MALLORY, &update).pop().expect("forwarded").1;
    let refused = accept_at(&forwarded, &format!("sip:bob@{BOB}")).replace("200 OK", "488 No");
    bench.receive(BOB, &refused);
    callee.target = format!("sip:x@{moved}");
    assert_refused(&mut bench, &callee, "refused");
    assert_eq!(bench.metrics.refreshed_targets.value(), 0);
}

#[test]
fn a_caller_that_keeps_the_route_set_of_the_ringing_reaches_the_contact_of_the_answer() {
    for ringing in ["sip:bob@192.0.2.29:5060", "sip:bob@192.0.2.20:5060"] {
        // Otherwise a short INVITE over UDP from an unknown caller earns no 180.
        let mut settings = settings();
        settings.limits.amplification = 100;
        let mut bench = bench_with(settings);
        let plan = Plan {
            ringing: Some(ringing.to_owned()),
            ..Plan::default()
        };
        let (caller, _) = call(&mut bench, &plan);
        assert_eq!(relayed(&mut bench, &caller, "ACK"), Ok(BOB.to_owned()));
        let changed = u64::from(ringing != plan.callee_contact);
        assert_eq!(bench.metrics.refreshed_targets.value(), changed);
    }
}

#[test]
fn a_proof_expires_unless_the_dialog_is_refreshed() {
    let day = Duration::from_secs(24 * 3600);
    let mut bench = bench();
    let (caller, callee) = call(&mut bench, &Plan::default());
    bench.wait(day / 2);
    assert!(relayed(&mut bench, &caller, "INFO").is_ok());
    bench.wait(day / 2 + Duration::from_secs(60));
    assert_eq!(relayed(&mut bench, &caller, "INFO"), Err(481));
    assert_refused(&mut bench, &callee, "expired");

    let mut bench = bench_with(settings());
    let (caller, callee) = call(&mut bench, &Plan::default());
    for _ in 0..3 {
        bench.wait(day * 3 / 4);
        let reinvite = caller.request("INVITE", &contact(MALLORY));
        let forwarded = bench
            .receive(MALLORY, &reinvite)
            .pop()
            .expect("forwarded")
            .1;
        bench.receive(BOB, &accept_at(&forwarded, &format!("sip:bob@{BOB}")));
    }
    assert_eq!(relayed(&mut bench, &caller, "BYE"), Ok(BOB.to_owned()));
    assert_eq!(relayed(&mut bench, &callee, "BYE"), Ok(MALLORY.to_owned()));
}

#[test]
fn a_contact_off_limits_is_no_target_inside_a_dialog_either() {
    for (target, expected) in [
        ("sip:x@127.0.0.1:8080", Err(403)),
        ("sip:x@127.0.0.1", Err(403)),
        ("sip:x@169.254.169.254:80", Err(403)),
        ("sip:x@192.0.2.1:5060", Err(403)),
        ("sip:x@elsewhere.example;maddr=127.0.0.1", Err(403)),
        ("sip:x@198.51.100.9", Err(403)),
        ("sip:x@203.0.113.9", Ok("203.0.113.9:5060".to_owned())),
    ] {
        let mut settings = settings();
        let networks = ["198.51.100.0/24".parse().expect("a network")];
        settings.proxy.off_limits = networks.into_iter().collect();
        let mut bench = bench_with(settings);
        let plan = Plan {
            callee_contact: target.to_owned(),
            ..Plan::default()
        };
        let (caller, _) = call(&mut bench, &plan);
        let fate = relayed(&mut bench, &caller, "INFO");
        assert_eq!(fate, expected, "{target}");
        let counted = u64::from(expected.is_err());
        assert_eq!(bench.metrics.off_limits.value(), counted, "{target}");
    }
}

#[test]
fn a_party_on_this_host_stays_reachable_for_the_other() {
    const PBX: &str = "127.0.0.1:5080";
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = register("bob", PBX, 1, "");
    assert_eq!(status(&only(bench.receive(PBX, &contact))), 200);
    let invite = format!(
        "INVITE {AS_BOB} SIP/2.0\nVia: SIP/2.0/UDP {MALLORY};branch=z9hG4bKpbx\nMax-Forwards: 70\n\
         From: <{AS_MALLORY}>;tag=m1\nTo: <{AS_BOB}>\nCall-ID: the-call\nCSeq: 1 INVITE\n\
         Contact: <sip:x@{MALLORY}>\nContent-Length: 0\n\n"
    );
    let sent = bench.receive(MALLORY, &invite).pop().expect("forwarded");
    assert_eq!(sent.0.to_string(), PBX);
    let answered = only(bench.receive(PBX, &accept_at(&sent.1, "sip:bob@127.0.0.1:5080")));
    let caller = Party {
        at: MALLORY,
        speaks_as: AS_MALLORY.to_owned(),
        tag: "m1",
        other: AS_BOB.to_owned(),
        other_tag: "b1",
        target: "sip:bob@127.0.0.1:5080".to_owned(),
        routes: recorded(&answered),
    };
    assert_eq!(relayed(&mut bench, &caller, "BYE"), Ok(PBX.to_owned()));
}

#[test]
fn a_caller_whose_contact_has_maddr_is_reached_where_it_called_from() {
    for maddr in ["203.0.113.7", "127.0.0.1"] {
        let mut bench = bench();
        let plan = Plan {
            caller_contact: format!("sip:x@{MALLORY};maddr={maddr}"),
            ..Plan::default()
        };
        let (_, callee) = call(&mut bench, &plan);
        assert_eq!(relayed(&mut bench, &callee, "INFO"), Ok(MALLORY.to_owned()));
    }
}

#[test]
fn a_to_that_the_caller_invents_gives_the_callee_no_name() {
    for (to, expected) in [
        ("sip:alice@example.org", Err(407)),
        ("sip:alice@192.0.2.1:9", Err(407)),
        ("sip:bob@192.0.2.1", Ok(MALLORY.to_owned())),
        ("sip:bob@elsewhere.example", Ok(MALLORY.to_owned())),
    ] {
        let mut bench = bench();
        let plan = Plan {
            to,
            ..Plan::default()
        };
        let (_, callee) = call(&mut bench, &plan);
        for method in ["MESSAGE", "INVITE", "SUBSCRIBE"] {
            let fate = relayed(&mut bench, &callee, method);
            assert_eq!(fate, expected, "{to} {method}");
        }
        let bye = relayed(&mut bench, &callee, "BYE");
        assert_eq!(bye, Ok(MALLORY.to_owned()), "{to} can hang up");
    }
}

#[test]
fn a_from_that_the_callee_invents_gives_the_caller_no_name() {
    let mut bench = bench();
    let plan = Plan {
        from_in_answer: "sip:alice@example.org",
        ..Plan::default()
    };
    let (mut caller, _) = call(&mut bench, &plan);
    assert_eq!(relayed(&mut bench, &caller, "INFO"), Ok(BOB.to_owned()));
    caller.speaks_as = plan.from_in_answer.to_owned();
    for method in ["MESSAGE", "INVITE", "NOTIFY"] {
        assert_eq!(relayed(&mut bench, &caller, method), Err(407), "{method}");
    }
}

#[test]
fn a_to_that_a_request_inside_the_dialog_invents_gives_the_other_party_no_name() {
    let mut bench = bench();
    let (mut caller, mut callee) = call(&mut bench, &Plan::default());
    caller.other = "sip:alice@example.org".to_owned();
    let reinvite = caller.request("INVITE", &contact(MALLORY));
    let sent = bench.receive(MALLORY, &reinvite);
    callee.routes = recorded(&sent.last().expect("it is forwarded").1);
    assert_eq!(relayed(&mut bench, &callee, "INFO"), Ok(MALLORY.to_owned()));
    callee.speaks_as = caller.other;
    assert_eq!(relayed(&mut bench, &callee, "INFO"), Err(407));
}

/// A call to one of two subscribers with the same Call-ID and From tag. Returns the dialog as the caller sees it.
fn call_to(bench: &mut Bench, user: &str, at: &'static str, tag: &'static str) -> Party {
    let uri = format!("sip:{user}@example.org");
    let invite = format!(
        "INVITE {uri} SIP/2.0\nVia: SIP/2.0/UDP {MALLORY};branch=z9hG4bKd{}\nMax-Forwards: 70\n\
         From: <{AS_MALLORY}>;tag=m1\nTo: <{uri}>\nCall-ID: the-call\nCSeq: 1 INVITE\n\
         Contact: <sip:x@{MALLORY}>\nContent-Length: 0\n\n",
        BRANCH.fetch_add(1, Ordering::Relaxed)
    );
    let (to, forwarded) = bench.receive(MALLORY, &invite).pop().expect("forwarded");
    assert_eq!(to.to_string(), at);
    let target = format!("sip:y@{at}");
    let accepted = accept_at(&forwarded, &target).replace(";tag=b1", &format!(";tag={tag}"));
    let mut routes = recorded(&only(bench.receive(at, &accepted)));
    routes.reverse();
    Party {
        at: MALLORY,
        speaks_as: AS_MALLORY.to_owned(),
        tag: "m1",
        other: uri,
        other_tag: tag,
        target,
        routes,
    }
}

#[test]
fn a_response_with_the_tags_of_another_dialog_does_not_change_its_target() {
    let near = "127.0.0.1:5080";
    let elsewhere = "192.0.2.67:5060";
    for moved in ["127.0.0.1:8080", "192.0.2.68:5060"] {
        let mut bench = Bench::new(settings()).with_subscribers();
        bench.register("bob", near);
        bench.register("alice", elsewhere);
        let mut to_bob = call_to(&mut bench, "bob", near, "b1");
        let to_alice = call_to(&mut bench, "alice", elsewhere, "z1");
        let reinvite = to_alice.request("INVITE", &contact(MALLORY));
        let (_, forwarded) = bench.receive(MALLORY, &reinvite).pop().expect("forwarded");
        let target = format!("sip:y@{moved}");
        let answer = accept_at(&forwarded, &target).replace(";tag=z1", ";tag=b1");
        bench.receive(elsewhere, &answer);
        assert_eq!(relayed(&mut bench, &to_bob, "INFO"), Ok(near.to_owned()));
        to_bob.target = target;
        assert_eq!(relayed(&mut bench, &to_bob, "INFO"), Err(481), "{moved}");
    }
}

#[test]
fn a_party_on_this_host_takes_no_request_elsewhere_on_it() {
    let near = "127.0.0.1:5080";
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", near);
    let mut caller = call_to(&mut bench, "bob", near, "b1");
    let reinvite = caller.request("INVITE", &contact(MALLORY));
    let (_, forwarded) = bench.receive(MALLORY, &reinvite).pop().expect("forwarded");
    bench.receive(near, &accept_at(&forwarded, "sip:y@127.0.0.1:8080"));
    assert_eq!(relayed(&mut bench, &caller, "INFO"), Ok(near.to_owned()));
    caller.target = "sip:y@127.0.0.1:8080".to_owned();
    assert_eq!(relayed(&mut bench, &caller, "INFO"), Err(403));
}

#[test]
fn another_domain_notifies_a_phone_inside_a_call_of_a_transfer_only() {
    let mut options = settings();
    options.limits.amplification = 100;
    let mut bench = bench_with(options);
    let plan = Plan {
        ringing: Some(format!("sip:bob@{BOB}")),
        ..Plan::default()
    };
    let (caller, callee) = call(&mut bench, &plan);
    let with = |party: &Party, extra: &str| {
        party.request("NOTIFY", &format!("{extra}{}", contact(MALLORY)))
    };
    for event in [
        "Event: check-sync;reboot=true\n",
        "o: resync\n",
        "Event: refer\nEvent: check-sync\n",
        "Event: referee\n",
        "",
    ] {
        let notify = with(&caller, event);
        assert!(
            matches!(fate(&mut bench, MALLORY, &notify), Err(400 | 403)),
            "{event}"
        );
    }
    let notify = with(&caller, "Event: refer;id=2\n");
    assert_eq!(fate(&mut bench, MALLORY, &notify), Ok(BOB.to_owned()));
    let notify = with(&callee, "Event: kpml\n");
    assert_eq!(fate(&mut bench, BOB, &notify), Ok(MALLORY.to_owned()));
    // A subscription inside the call does not change this.
    let subscribe = caller.request("SUBSCRIBE", &contact(MALLORY));
    let (_, forwarded) = bench.receive(MALLORY, &subscribe).pop().expect("forwarded");
    let answered = only(bench.receive(BOB, &accept_at(&forwarded, &caller.target)));
    let mut within = caller.clone();
    within.routes = recorded(&answered).into_iter().rev().collect();
    let notify = with(&within, "Event: check-sync\n");
    assert_eq!(fate(&mut bench, MALLORY, &notify), Err(403));
}
