//! Responses to REGISTER that wait for the database.

use crate::bench::{ALICE, BOB, Bench, answer_challenge, only, register, settings, status};
use sip_elements::metrics::TRANSACTION_COUNTS;
use sip_elements::{ControlMessage, Settings};
use sip_transport::Node;
use std::time::Duration;

fn open(answer_when_saved: bool) -> Settings {
    let mut settings = settings();
    settings.challenge.clear();
    settings.registrar.answer_when_saved = answer_when_saved;
    settings.registrar.longest_unsaved = Duration::from_millis(500);
    settings
}

impl Bench {
    /// The control plane begins a save. Returns its number.
    fn begin_save(&self) -> u64 {
        self.shared.locations.take_changes().save
    }

    /// A save succeeds, and there is room for `room` more changes. Returns what the node then sends.
    fn saved(&mut self, save: u64, room: usize) -> Vec<(std::net::SocketAddr, String)> {
        self.shared.locations.note_saved(save, room);
        self.exchange
            .control(self.now, ControlMessage::Saved, &mut self.output);
        self.sent()
    }
}

#[test]
fn with_durability_commit_200_waits_for_the_save_that_holds_the_binding() {
    let mut bench = Bench::new(open(true));
    let before = bench.begin_save();
    assert_eq!(bench.receive(ALICE, &register("alice", ALICE, 1, "")), []);
    assert_eq!(bench.saved(before, 10), [], "that save began before");
    let save = bench.begin_save();
    assert_eq!(bench.metrics.held_answers.value(), 1);
    let sent = bench.saved(save, 10);
    assert_eq!(status(&only(sent)), 200);
    assert_eq!(bench.metrics.held_answers.value(), 0);
}

#[test]
fn a_retransmission_gets_no_answer_sooner() {
    let mut bench = Bench::new(open(true));
    for _ in 0..3 {
        assert_eq!(bench.receive(ALICE, &register("alice", ALICE, 1, "")), []);
    }
    let save = bench.begin_save();
    assert_eq!(bench.saved(save, 10).len(), 3);
}

#[test]
fn what_changes_nothing_is_answered_at_once() {
    let mut bench = Bench::new(open(true));
    let fetch =
        register("alice", ALICE, 1, "").replace(&format!("Contact: <sip:alice@{ALICE}>\n"), "");
    assert_eq!(status(&only(bench.receive(ALICE, &fetch))), 200);
    let short = register("alice", ALICE, 2, "Expires: 5\n");
    assert_eq!(status(&only(bench.receive(ALICE, &short))), 423);
}

#[test]
fn answers_wait_while_saving_lags_behind_and_not_otherwise() {
    let mut bench = Bench::new(open(false));
    assert_eq!(bench.saved(bench.begin_save(), 10), []);
    let first = bench.receive(ALICE, &register("alice", ALICE, 1, ""));
    assert_eq!(status(&only(first)), 200);
    // The save hangs.
    let save = bench.begin_save();
    bench.now = bench.now + Duration::from_millis(501);
    assert_eq!(bench.receive(BOB, &register("bob", BOB, 1, "")), []);
    assert_eq!(bench.saved(save, 10), [], "bob's binding is not in it");
    let save = bench.begin_save();
    assert_eq!(status(&only(bench.saved(save, 10))), 200);
}

#[test]
fn answers_wait_when_more_changes_come_than_can_be_saved_in_time() {
    let mut bench = Bench::new(open(false));
    assert_eq!(bench.saved(bench.begin_save(), 2), []);
    let mut answered = 0;
    for number in 0..10 {
        let user = format!("user{number}");
        answered += bench.receive(ALICE, &register(&user, ALICE, 1, "")).len();
    }
    assert_eq!(answered, 3);
    let save = bench.begin_save();
    assert_eq!(bench.saved(save, 2).len(), 7);
}

#[test]
fn an_answer_that_waits_for_too_long_is_dropped_and_counted() {
    let mut bench = Bench::new(open(true));
    assert_eq!(bench.receive(ALICE, &register("alice", ALICE, 1, "")), []);
    assert_eq!(bench.wait(Duration::from_secs(32)), []);
    assert_eq!(bench.metrics.held_answers_dropped.value(), 1);
    assert_eq!(bench.saved(bench.begin_save(), 10), []);
}

fn live_servers(bench: &Bench) -> u64 {
    let place = TRANSACTION_COUNTS
        .iter()
        .position(|name| *name == "servers_live");
    let place = place.expect("a count");
    bench.metrics.transactions[place].value()
}

#[test]
fn a_dropped_answer_leaves_no_transaction_behind() {
    let mut settings = settings();
    settings.registrar.answer_when_saved = true;
    let mut bench = Bench::new(settings);
    let challenge = only(bench.receive(ALICE, &register("alice", ALICE, 1, "")));
    let credentials = answer_challenge(&challenge, "alice", "REGISTER", "sip:example.org");
    let authorization = format!("Authorization: {credentials}\n");
    assert_eq!(
        bench.receive(ALICE, &register("alice", ALICE, 2, &authorization)),
        []
    );
    // The request waits for the password first, and that wait needs a transaction.
    let question = bench.question().expect("whose password?");
    assert_eq!(bench.answer(question), []);
    assert_eq!(live_servers(&bench), 1);
    for _ in 0..2 {
        assert_eq!(bench.wait(Duration::from_secs(33)), []);
    }
    assert_eq!(bench.metrics.held_answers_dropped.value(), 1);
    assert_eq!(live_servers(&bench), 0);
}

#[test]
fn refreshes_within_an_eighth_of_the_lifetime_are_not_written_and_counted() {
    let mut bench = Bench::new(open(false));
    let expires = "Expires: 800\n";
    bench.receive(ALICE, &register("alice", ALICE, 1, expires));
    assert_eq!(bench.shared.locations.take_changes().addresses.len(), 1);
    for (cseq, seconds, written) in [(2, 50, 0), (3, 50, 0), (4, 1, 1)] {
        bench.now = bench.now + Duration::from_secs(seconds);
        bench.receive(ALICE, &register("alice", ALICE, cseq, expires));
        let changes = bench.shared.locations.take_changes();
        assert_eq!(changes.addresses.len(), written, "CSeq {cseq}");
    }
    assert_eq!(bench.shared.locations.refreshes_not_written(), 2);
}
