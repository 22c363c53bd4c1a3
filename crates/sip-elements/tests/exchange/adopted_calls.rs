//! A node gets requests of a dialog that another node had: it reports the dialog, and adopts it while it runs.

use crate::bench::{ALICE, BOB, Bench, accept, accept_at, only, settings, status};
use crate::live_calls::{acknowledged_call, from_alice, node_with};
use sip_dialog::Ended;
use sip_elements::{ControlMessage, Domains, Exchange, MissedDialog, Record, Settings};
use sip_message::KeyHasher;
use sip_transport::{Input, Node};
use std::time::Duration;

/// The state of a dialog in a store.
#[derive(Clone, Debug)]
struct Stored {
    id: u128,
    key: u64,
    state: Box<[u8]>,
}

fn of_a_fleet() -> Settings {
    let mut settings = settings();
    settings.dialogs.persist = true;
    settings.dialogs.adopts = true;
    settings
}

/// A node of the same fleet at another address.
fn elsewhere() -> Settings {
    let mut settings = of_a_fleet();
    settings.fleet = Some(KeyHasher::new((11, 12)));
    for listener in &mut settings.listeners {
        listener.address = "192.0.2.2:5060".parse().expect("an address");
        listener.advertised = "192.0.2.2:5060".into();
    }
    settings.domains = Domains::new(&["example.org".into()], &settings.listeners);
    settings
}

/// What a node has recorded since the last time: states, missed dialogs, and how many calls have ended.
#[derive(Debug, Default)]
struct Recorded {
    stored: Vec<Stored>,
    removed: Vec<u128>,
    missed: Vec<MissedDialog>,
    ended: usize,
}

fn recorded(bench: &mut Bench) -> Recorded {
    let mut recorded = Recorded::default();
    for record in bench.output.drain_records() {
        match record {
            Record::Dialog {
                id,
                state: Some(state),
                ..
            } => {
                let key = Exchange::key_of_dialog(&state, &bench.shared.hasher).expect("a state");
                recorded.stored.push(Stored { id, key, state });
            }
            Record::Dialog { id, .. } => recorded.removed.push(id),
            Record::Missed(missed) => recorded.missed.push(missed),
            Record::Call(event) => {
                recorded.ended += usize::from(event.call.ended.is_some());
            }
            Record::Notice(_) | Record::Dialogs(_) | Record::Traced(_) => {}
        }
    }
    recorded
}

/// An answered call, its 2xx, its state, and a second node without it.
fn taken_over() -> (Bench, String, Stored) {
    let mut first = node_with(of_a_fleet());
    let (_, answered) = acknowledged_call(&mut first);
    let stored = recorded(&mut first).stored.pop().expect("a state");
    let mut second = node_with(elsewhere());
    second.now = first.now + Duration::from_secs(5);
    (second, answered, stored)
}

fn order(bench: &mut Bench, order: ControlMessage) {
    bench
        .exchange
        .handle(bench.now, Input::Control(order), &mut bench.output);
}

fn adopt(bench: &mut Bench, stored: &Stored) {
    let state = stored.state.clone();
    order(bench, ControlMessage::Adopt { state });
}

#[test]
fn a_request_of_a_dialog_that_is_not_here_is_relayed_and_reported_once_in_a_while() {
    let (mut second, answered, stored) = taken_over();
    for cseq in 2..5 {
        let info = only(second.receive(ALICE, &from_alice(&answered, "INFO", cseq, "")));
        assert!(info.starts_with("INFO "), "{info}");
        second.receive(BOB, &accept(&info));
    }
    let missed = recorded(&mut second).missed;
    let [missed] = &missed[..] else {
        panic!("{missed:?}")
    };
    assert_eq!(missed.keys[0], stored.key, "the caller has sent it");
    assert_eq!(missed.call, stored.id as u32);
    assert_eq!(&*missed.call_id, b"call-1");
    second.wait(Duration::from_secs(6));
    second.receive(ALICE, &from_alice(&answered, "INFO", 5, ""));
    assert_eq!(recorded(&mut second).missed.len(), 1, "again");
}

#[test]
fn an_adopted_dialog_ends_with_its_bye_and_one_record() {
    let (mut second, answered, stored) = taken_over();
    adopt(&mut second, &stored);
    assert_eq!(second.dialogs(), (0, 1));
    adopt(&mut second, &stored);
    assert_eq!(second.dialogs(), (0, 1), "it is here already");
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    second.receive(BOB, &accept(&bye));
    assert_eq!(second.dialogs(), (0, 0));
    let recorded = recorded(&mut second);
    assert_eq!(
        (recorded.ended, &recorded.removed[..]),
        (1, &[stored.id][..])
    );
    assert!(recorded.missed.is_empty());
}

#[test]
fn a_bye_that_comes_before_the_state_ends_the_dialog_with_its_record() {
    let (mut second, answered, stored) = taken_over();
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    second.receive(BOB, &accept(&bye));
    assert_eq!(recorded(&mut second).missed.len(), 1);
    second.wait(Duration::from_secs(3));
    adopt(&mut second, &stored);
    assert_eq!(second.dialogs(), (0, 0));
    assert_eq!(second.ended_by(Ended::ByCaller), 1);
    let recorded = recorded(&mut second);
    assert_eq!(
        (recorded.ended, &recorded.removed[..]),
        (1, &[stored.id][..])
    );
}

#[test]
fn a_state_that_comes_while_the_bye_is_under_way_ends_with_it() {
    let (mut second, answered, stored) = taken_over();
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    adopt(&mut second, &stored);
    second.receive(BOB, &accept(&bye));
    assert_eq!(second.dialogs(), (0, 0));
    assert_eq!(recorded(&mut second).ended, 1);
}

#[test]
fn a_repeated_answer_is_passed_on_because_it_may_answer_another_node() {
    let (mut second, answered, _) = taken_over();
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    assert_eq!(
        status(&only(second.receive(BOB, &accept(&bye)))),
        200,
        "the first"
    );
    // The caller has not had it, and repeats the BYE. An edge gives that to the first node. To the callee, its copy is a repetition.
    for seconds in [1, 10] {
        second.wait(Duration::from_secs(seconds));
        let sent = second.receive(BOB, &accept(&bye));
        assert_eq!(sent[0].0.to_string(), ALICE, "after {seconds} s");
        assert_eq!(status(&only(sent)), 200);
    }
}

#[test]
fn a_node_on_its_own_drops_a_repeated_answer() {
    let mut node = node_with(settings());
    let (_, answered) = acknowledged_call(&mut node);
    let bye = only(node.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    assert_eq!(status(&only(node.receive(BOB, &accept(&bye)))), 200);
    assert_eq!(node.receive(BOB, &accept(&bye)), []);
}

#[test]
fn a_bye_is_not_remembered_for_ever() {
    let (mut second, answered, stored) = taken_over();
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    second.receive(BOB, &accept(&bye));
    second.wait(Duration::from_secs(60));
    adopt(&mut second, &stored);
    assert_eq!(second.dialogs(), (0, 1));
}

#[test]
fn a_dialog_that_another_node_has_adopted_leaves_no_record() {
    let mut first = node_with(of_a_fleet());
    acknowledged_call(&mut first);
    let Stored { id, key, .. } = recorded(&mut first).stored.pop().expect("a state");
    for (id, key) in [(id + 1, key), (id, key + 1)] {
        order(&mut first, ControlMessage::Disown { id, key });
        assert_eq!(first.dialogs(), (0, 1));
    }
    order(&mut first, ControlMessage::Disown { id, key });
    assert_eq!(first.dialogs(), (0, 0));
    let recorded = recorded(&mut first);
    assert_eq!((recorded.ended, recorded.removed.len()), (0, 0));
}

#[test]
fn a_dialog_that_another_node_has_adopted_is_reported_when_a_request_misses_it_again() {
    let (mut second, answered, stored) = taken_over();
    let info = only(second.receive(ALICE, &from_alice(&answered, "INFO", 2, "")));
    second.receive(BOB, &accept(&info));
    assert_eq!(recorded(&mut second).missed.len(), 1);
    adopt(&mut second, &stored);
    let Stored { id, key, .. } = stored;
    order(&mut second, ControlMessage::Disown { id, key });
    // The other node has died at once.
    let bye = only(second.receive(ALICE, &from_alice(&answered, "BYE", 3, "")));
    second.receive(BOB, &accept(&bye));
    assert_eq!(recorded(&mut second).missed.len(), 1, "again");
    adopt(&mut second, &stored);
    assert_eq!((second.dialogs(), recorded(&mut second).ended), ((0, 0), 1));
}

#[test]
fn a_state_that_cannot_be_read_or_does_not_fit_is_refused() {
    let (mut second, _, stored) = taken_over();
    let mut state = stored.state.to_vec();
    state.pop();
    order(
        &mut second,
        ControlMessage::Adopt {
            state: state.into(),
        },
    );
    assert_eq!(second.dialogs(), (0, 0));
    let mut settings = of_a_fleet();
    settings.limits.dialogs = 0;
    let mut full = node_with(settings);
    full.now = second.now;
    adopt(&mut full, &stored);
    assert_eq!(full.dialogs(), (0, 0));
    assert_eq!(full.metrics.dialogs_refused.value(), 1);
}

#[test]
fn a_request_to_a_target_that_only_the_dialog_knows_waits_for_the_adoption() {
    const MOVED: &str = "192.0.2.29:5060";
    let mut first = node_with(of_a_fleet());
    let (_, answered) = acknowledged_call(&mut first);
    let sent = first.receive(ALICE, &from_alice(&answered, "UPDATE", 2, ""));
    let (_, forwarded) = sent.into_iter().next_back().expect("a copy");
    first.receive(BOB, &accept_at(&forwarded, &format!("sip:bob@{MOVED}")));
    let stored = recorded(&mut first).stored.pop().expect("a state");
    let info = from_alice(&answered, "INFO", 3, "").replace(
        &format!("INFO sip:bob@{BOB}"),
        &format!("INFO sip:bob@{MOVED}"),
    );

    let mut second = node_with(of_a_fleet());
    second.now = first.now;
    assert_eq!(second.receive(ALICE, &info), [], "it will be repeated");
    assert_eq!(recorded(&mut second).missed.len(), 1);
    adopt(&mut second, &stored);
    let relayed = only(second.receive(ALICE, &info));
    assert!(relayed.starts_with("INFO "), "{relayed}");

    let mut without_store = node_with(of_a_fleet());
    without_store.now = first.now;
    assert_eq!(without_store.receive(ALICE, &info), []);
    let refused = only(without_store.receive(ALICE, &info));
    assert_eq!(status(&refused), 481, "the state did not come");
}

#[test]
fn a_route_value_that_another_node_of_the_fleet_wrote_leads_here() {
    let (_, answered, _) = taken_over();
    let elsewhere = |adopts| {
        let mut listeners = of_a_fleet().listeners;
        listeners[0].address = "192.0.2.2:5060".parse().expect("address");
        listeners[0].advertised = "192.0.2.2:5060".into();
        let mut settings = Settings::new(&["example.org".into()], listeners);
        settings.dialogs.adopts = adopts;
        node_with(settings)
    };
    let bye = from_alice(&answered, "BYE", 2, "");
    let mut second = elsewhere(true);
    let sent = second.receive(ALICE, &bye);
    assert!(
        sent.iter()
            .any(|(to, _)| *to == BOB.parse().expect("address")),
        "{sent:?}"
    );
    let forged = bye.replace("Call-ID: call-1", "Call-ID: call-2");
    for (mut node, request) in [(elsewhere(true), &forged), (elsewhere(false), &bye)] {
        let sent = node.receive(ALICE, request);
        assert!(
            sent.iter()
                .all(|(to, _)| *to != BOB.parse().expect("address")),
            "{sent:?}"
        );
    }
}

#[test]
fn a_node_without_a_store_reports_nothing() {
    let (_, answered, _) = taken_over();
    let mut settings = of_a_fleet();
    settings.dialogs.adopts = false;
    let mut alone = node_with(settings);
    let info = only(alone.receive(ALICE, &from_alice(&answered, "INFO", 2, "")));
    assert!(info.starts_with("INFO "), "{info}");
    assert!(recorded(&mut alone).missed.is_empty());
}
