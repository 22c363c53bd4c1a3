//! What an operator does with calls: lists them part by part, and ends them.

use crate::bench::{ALICE, BOB, Bench, accept, only, request, settings, status};
use crate::ending_calls::{line, to};
use crate::live_calls::{acknowledged_call, call, from_alice, from_bob, node_with};
use sip_dialog::{Change, Ended};
use sip_elements::trace::Selection;
use sip_elements::{
    ControlMessage, DialogAction, DialogFilter, DialogOutcome, DialogRequest, EndOutcome,
    FoundDialog, HungUp, Record,
};
use sip_transport::{Networks, Node};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const REASON: &str = "SIP;cause=487;text=\"Ended by operator: fraud\"";

fn node() -> Bench {
    node_with(settings())
}

impl Bench {
    /// Does what the control plane requests. Also returns what the node sends.
    fn request(
        &mut self,
        from: u32,
        action: DialogAction,
    ) -> (DialogOutcome, Vec<(SocketAddr, String)>) {
        let request = DialogRequest {
            number: 7,
            from,
            action,
        };
        let request = ControlMessage::Dialogs(request);
        self.exchange.control(self.now, request, &mut self.output);
        let records: Vec<Record> = self.output.drain_records().collect();
        let mut outcome = None;
        for record in records {
            match record {
                Record::Dialogs(answer) => {
                    assert_eq!((answer.number, outcome.is_some()), (7, false));
                    outcome = Some(answer.outcome);
                }
                other => self.output.record(other),
            }
        }
        (outcome.expect("an answer"), self.sent())
    }

    /// One part of a list.
    fn part(
        &mut self,
        filter: &DialogFilter,
        from: u32,
        most: usize,
    ) -> (Vec<FoundDialog>, Option<u32>) {
        let filter = Arc::new(filter.clone());
        match self.request(from, DialogAction::Show { filter, most }).0 {
            DialogOutcome::Shown { found, next } => (found, next),
            other @ DialogOutcome::Ended(_) => panic!("{other:?}"),
        }
    }

    fn list(&mut self, filter: &DialogFilter) -> Vec<FoundDialog> {
        let (found, next) = self.part(filter, 0, 100);
        assert_eq!(next, None);
        found
    }

    /// Ends the only call.
    fn end(&mut self) -> (EndOutcome, Vec<(SocketAddr, String)>) {
        let found = self.list(&DialogFilter::default());
        let [FoundDialog { id, .. }] = found[..] else {
            panic!("{found:#?}")
        };
        let reason = REASON.as_bytes().into();
        match self.request(0, DialogAction::End { id, reason }) {
            (DialogOutcome::Ended(outcome), sent) => (outcome, sent),
            (other @ DialogOutcome::Shown { .. }, _) => panic!("{other:?}"),
        }
    }

    /// How the only call ended, and its Reason.
    fn end_of_record(&mut self) -> (Ended, String) {
        let ends = self
            .output
            .drain_records()
            .filter_map(|record| match record {
                Record::Call(event) => match event.change {
                    Change::Ended(ended) => Some((
                        ended,
                        String::from_utf8_lossy(&event.call.reason).into_owned(),
                    )),
                    Change::Started | Change::Ringing | Change::Answered => None,
                },
                _ => None,
            });
        let ends: Vec<(Ended, String)> = ends.collect();
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends.into_iter().next().expect("one")
    }
}

/// What the record of a call that an operator ended says.
fn by_operator() -> (Ended, String) {
    (Ended::ByOperator, REASON.to_owned())
}

/// Both parties get a BYE.
fn assert_byes(sent: &[(SocketAddr, String)]) {
    for (address, target, names, cseq) in [
        (BOB, format!("sip:bob@{BOB}"), ["alice", "bob"], "100001"),
        (
            ALICE,
            format!("sip:alice@{ALICE}"),
            ["bob", "alice"],
            "100003",
        ),
    ] {
        let byes: Vec<&str> = to(sent, address);
        let byes = byes.iter().filter(|text| text.starts_with("BYE "));
        let [bye] = byes.collect::<Vec<_>>()[..] else {
            panic!("{address}: {sent:#?}")
        };
        assert!(
            bye.starts_with(&format!("BYE {target} SIP/2.0\r\n")),
            "{bye}"
        );
        for (header, name) in ["From", "To"].into_iter().zip(names) {
            let tag = &name[..1];
            let party = format!("<sip:{name}@example.org>;tag={tag}1");
            assert_eq!(line(bye, header), party);
        }
        assert_eq!(line(bye, "CSeq"), format!("{cseq} BYE"));
        assert_eq!(line(bye, "Reason"), REASON);
    }
}

#[test]
fn an_ended_call_gets_two_byes_and_a_record_that_says_operator() {
    let mut bench = node();
    let (invite, _) = acknowledged_call(&mut bench);
    // The BYE to Alice has a number above that of Bob's request.
    only(bench.receive(BOB, &from_bob(&invite, "INFO", 3)));
    let (outcome, sent) = bench.end();
    let both = HungUp {
        caller: true,
        callee: true,
    };
    assert_eq!(outcome, EndOutcome::HungUp(both));
    assert_eq!(sent.len(), 2, "{sent:#?}");
    assert_byes(&sent);
    assert_eq!(bench.end_of_record(), by_operator());
    assert_eq!(bench.ended_by(Ended::ByOperator), 1);
    assert_eq!(bench.dialogs(), (0, 0));

    // The answers go no further, and end the transactions.
    for (address, bye) in [(BOB, to(&sent, BOB)[0]), (ALICE, to(&sent, ALICE)[0])] {
        assert_eq!(bench.receive(address, &accept(bye)), []);
    }
    bench.wait(Duration::from_secs(40));
    assert_eq!(bench.exchange.transaction_stats().clients_live, 0);
}

#[test]
fn a_call_that_rings_is_cancelled_and_its_caller_gets_487() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &accept(&invite).replace("200 OK", "180 Ringing"));
    let (outcome, sent) = bench.end();
    assert_eq!(outcome, EndOutcome::Cancelled);
    let cancel = only(sent);
    assert!(cancel.starts_with("CANCEL "), "{cancel}");
    assert_eq!(line(&cancel, "Reason"), REASON);
    assert_eq!(bench.dialogs(), (1, 0), "until the final response");
    // Again changes nothing, and neither does a CANCEL of the caller.
    let (outcome, sent) = bench.end();
    assert_eq!((outcome, sent.len()), (EndOutcome::AlreadyCancelled, 0));
    let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
    let cancel = request("CANCEL", callee, caller, "i1", "Reason: SIP;cause=200\n");
    assert_eq!(status(&only(bench.receive(ALICE, &cancel))), 200);

    let refused = accept(&invite).replace("200 OK", "487 Request Terminated");
    let sent = bench.receive(BOB, &refused);
    assert_eq!(status(to(&sent, ALICE)[0]), 487, "{sent:#?}");
    assert_eq!(bench.end_of_record(), by_operator());
    assert_eq!(bench.ended_by(Ended::ByOperator), 1);
    assert_eq!(bench.dialogs(), (0, 0));
}

#[test]
fn a_call_that_is_answered_while_it_is_cancelled_is_hung_up() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &accept(&invite).replace("200 OK", "180 Ringing"));
    assert_eq!(bench.end().0, EndOutcome::Cancelled);
    let sent = bench.receive(BOB, &accept(&invite));
    assert_eq!(status(to(&sent, ALICE)[0]), 200, "{sent:#?}");
    for address in [ALICE, BOB] {
        let sent = to(&sent, address);
        let bye = sent.last().expect("a message");
        assert!(bye.starts_with("BYE "), "{bye}");
        assert_eq!(line(bye, "Reason"), REASON);
    }
    assert_eq!(bench.end_of_record(), by_operator());
    assert_eq!(bench.dialogs(), (0, 0));
}

#[test]
fn a_call_that_its_caller_has_cancelled_stays_ended_by_the_caller() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &accept(&invite).replace("200 OK", "180 Ringing"));
    let cancel = request(
        "CANCEL",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    bench.receive(ALICE, &cancel);
    let (outcome, sent) = bench.end();
    assert_eq!((outcome, sent.len()), (EndOutcome::AlreadyCancelled, 0));
    bench.receive(
        BOB,
        &accept(&invite).replace("200 OK", "487 Request Terminated"),
    );
    assert_eq!(bench.end_of_record(), (Ended::ByCaller, String::new()));
}

#[test]
fn a_call_that_has_ended_meanwhile_is_left_alone() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    let found = bench.list(&DialogFilter::default());
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.receive(BOB, &accept(&bye));
    let end = DialogAction::End {
        id: found[0].id,
        reason: REASON.as_bytes().into(),
    };
    let (outcome, sent) = bench.request(0, end);
    assert_eq!(outcome, DialogOutcome::Ended(EndOutcome::Gone));
    assert_eq!(sent, []);
    assert_eq!(bench.ended_by(Ended::ByOperator), 0);
}

#[test]
fn a_call_whose_parties_cannot_be_sent_a_bye_goes_on() {
    let mut bench = node();
    let invite = call(&mut bench);
    // A 2xx without a Contact leaves no remote target.
    let accepted = accept(&invite).replace(&format!("Contact: <sip:bob@{BOB}>\n"), "");
    bench.receive(BOB, &accepted);
    let (outcome, sent) = bench.end();
    assert_eq!((outcome, sent.len()), (EndOutcome::Unreachable, 0));
    assert_eq!(bench.dialogs(), (0, 1));
}

#[test]
fn a_call_is_found_by_its_parties_its_call_id_its_id_and_its_state() {
    let mut bench = node();
    acknowledged_call(&mut bench);
    let id = bench.list(&DialogFilter::default())[0].details.call.id;
    let user = |user: &str| DialogFilter {
        about: Selection::user(user),
        ..DialogFilter::default()
    };
    let about = |call_id: &[u8]| DialogFilter {
        about: Some(Selection::Call(call_id.into())),
        ..DialogFilter::default()
    };
    let other = |change: fn(&mut DialogFilter)| {
        let mut filter = DialogFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (user("alice@example.org"), 1),
        (user("sip:bob@EXAMPLE.org"), 1),
        (user("bob"), 1),
        (user("bo"), 0),
        (user("alice@example.net"), 0),
        (about(b"call-1"), 1),
        (about(b"call-"), 0),
        (other(|filter| filter.is_confirmed = Some(true)), 1),
        (other(|filter| filter.is_confirmed = Some(false)), 0),
        (
            DialogFilter {
                id: Some(id),
                ..about(b"call-1")
            },
            1,
        ),
        (other(|filter| filter.id = Some(1)), 0),
        (
            DialogFilter {
                is_confirmed: Some(false),
                ..user("alice")
            },
            0,
        ),
    ] {
        assert_eq!(bench.list(&filter).len(), expected, "{filter:?}");
    }
}

/// Alice begins calls that ring.
fn begin(bench: &mut Bench, calls: std::ops::Range<usize>) {
    for number in calls {
        let invite = request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            &format!("n{number}"),
            "",
        );
        let invite = invite.replace("Call-ID: call-1", &format!("Call-ID: call-{number}"));
        bench.receive(ALICE, &invite);
    }
}

#[test]
fn thousands_of_calls_are_listed_once_each_in_parts_of_bounded_size() {
    let mut settings = settings();
    settings.proxy.trusted_peers = Networks::new(["192.0.2.0/24".parse().expect("a network")]);
    let mut bench = node_with(settings);
    begin(&mut bench, 0..5_000);
    assert_eq!(bench.dialogs(), (5_000, 0));
    let (mut ids, mut from, mut parts) = (std::collections::BTreeSet::new(), Some(0), 0);
    while let Some(slot) = from {
        let (found, next) = bench.part(&DialogFilter::default(), slot, 10_000);
        assert!(found.len() <= 128, "{}", found.len());
        for dialog in &found {
            assert!(ids.insert(dialog.details.call.id), "listed twice");
        }
        (from, parts) = (next, parts + 1);
    }
    assert_eq!(ids.len(), 5_000);
    assert!(parts >= 5_000 / 128, "{parts}");
}

#[test]
fn a_request_that_admits_nothing_looks_at_more_slots_the_less_it_has_to_read() {
    let mut settings = settings();
    settings.proxy.trusted_peers = Networks::new(["192.0.2.0/24".parse().expect("a network")]);
    let mut bench = node_with(settings);
    begin(&mut bench, 0..5_000);
    let about = |about| DialogFilter {
        about,
        ..DialogFilter::default()
    };
    let is_confirmed = Some(true);
    for (none, next) in [
        (about(Selection::user("carol")), Some(1_024)),
        (about(Some(Selection::Call((*b"x").into()))), Some(4_096)),
        (
            DialogFilter {
                is_confirmed,
                ..about(None)
            },
            None,
        ),
        (
            DialogFilter {
                id: Some(1),
                ..about(None)
            },
            None,
        ),
    ] {
        assert_eq!(bench.part(&none, 0, 10), (Vec::new(), next), "{none:?}");
        assert_eq!(bench.part(&none, u32::MAX, 10), (Vec::new(), None));
    }
}

#[test]
fn the_last_of_thousands_of_ringing_calls_is_cancelled_part_by_part() {
    let mut settings = settings();
    settings.proxy.trusted_peers = Networks::new(["192.0.2.0/24".parse().expect("a network")]);
    let mut bench = node_with(settings);
    begin(&mut bench, 0..5_000);
    let last = DialogFilter {
        about: Some(Selection::Call((*b"call-4999").into())),
        ..DialogFilter::default()
    };
    let (found, _) = bench.part(&last, 4_096, 1);
    let end = || DialogAction::End {
        id: found[0].id,
        reason: REASON.as_bytes().into(),
    };
    let (outcome, sent) = bench.request(0, end());
    let expected = DialogOutcome::Ended(EndOutcome::Continue(4_096));
    assert_eq!((outcome, sent.len()), (expected, 0));
    let (outcome, _) = bench.request(4_096, end());
    assert_eq!(outcome, DialogOutcome::Ended(EndOutcome::Cancelled));
}
