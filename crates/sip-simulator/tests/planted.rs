//! Every invariant can fail. A machine with one planted fault violates the right rule, and the seed that found it finds
//! it again.

mod exchange;

use exchange::{DialogStore, ExchangeMachine};
use sip_dialog::{CallEvent, Change, Ended};
use sip_elements::{ChallengedMethods, Record, Settings};
use sip_message::{Message, Method};
use sip_simulator::{
    Account, BoundContact, Census, ControlOf, HostFacts, HostPlan, Machine, Outcome, QuestionOf,
    SavedDialog, simulate,
};
use sip_transport::{Flow, Input, Node, Output, Time};
use std::sync::Arc;
use std::time::Duration;

/// The planted fault of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Every fifth final response is written, but not sent.
    LosesResponses,
    /// Only the first of several equal responses is sent.
    AnswersOnce,
    /// Every INVITE is sent a second time, in a transaction of its own.
    ForwardsTwice,
    /// Some rejections are followed by another one.
    RefusesTwice,
    /// Callers are rejected, but their calls continue.
    RefusesAndForwards,
    /// No ACK is sent.
    LosesAcks,
    /// No CANCEL is sent.
    LosesCancels,
    /// CANCELs are sent without their reason.
    KeepsReasons,
    /// Every CANCEL says that the call was answered elsewhere.
    InventsReasons,
    /// The session description that the control plane chose is not used in requests.
    ForgetsDescriptions,
    /// Requests for one user go to a third party.
    Misdirects,
    /// Responses go to the default port, whatever their request's Via says.
    AnswersAtDefaultPort,
    /// Every identity is accepted.
    TrustsEverybody,
    /// One transaction never ends.
    Leaks,
    /// One dialog never ends.
    KeepsDialogs,
    /// The place of one call is not given back.
    KeepsPlaces,
    /// Ends are not counted while a transaction is live.
    CountsBadly,
    /// The machine accounts for only half of the held bytes.
    MisjudgesBytes,
    /// The tables hold more than their limit.
    Overfills,
    /// One message causes a hundred.
    Multiplies,
    /// The machine asks to be woken all the time.
    Spins,
    /// Contacts are not removed.
    KeepsContacts,
    /// The disk loses its contents.
    LosesRegistrations,
    /// Removed bindings are still counted.
    CountsBindingsBadly,
    /// Calls that were cancelled have no record.
    LosesRecords,
    /// Calls that were answered have two records.
    RecordsTwice,
    /// The callee is said to have ended the calls that the caller ended.
    MistakesParties,
    /// The state of confirmed dialogs is not saved.
    SavesNothing,
    /// The state of dialogs that have ended stays on the disk.
    KeepsRows,
    /// The dialogs on the disk are not restored.
    ForgetsDialogs,
    /// A machine that was started again does not end dialogs with their BYE.
    IgnoresByes,
    /// Calls are hung up after a minute and a half.
    HangsUpEarly,
    /// Sessions expire much later than agreed.
    HangsUpLate,
}

/// An exchange with a fault.
struct Broken {
    fault: Fault,
    machine: ExchangeMachine,
    /// Counts the starts.
    life: u32,
    /// All contacts that this machine has ever had, for [`Fault::KeepsContacts`].
    seen: Vec<BoundContact>,
}

struct BrokenNode<N: Node<Record = Record>> {
    fault: Fault,
    node: N,
    output: Output<N::Question, N::Record>,
    /// Counts the starts of its machine.
    life: u32,
    count: u64,
    answered: Vec<Vec<u8>>,
}

impl<N: Node<Record = Record>> BrokenNode<N> {
    fn run(
        &mut self,
        output: &mut Output<N::Question, N::Record>,
        act: impl FnOnce(&mut N, &mut Output<N::Question, N::Record>),
    ) {
        self.output.clear();
        act(&mut self.node, &mut self.output);
        for outgoing in self.output.outgoing() {
            let bytes = self.output.written(outgoing.range.clone()).to_vec();
            self.count += 1;
            for (flow, bytes) in spoil(
                self.fault,
                self.count,
                &mut self.answered,
                outgoing.flow,
                bytes,
            ) {
                output.send(flow, |into| into.extend_from_slice(&bytes));
            }
        }
        for hand_over in self.output.hand_overs() {
            let bytes = self.output.written(hand_over.range.clone());
            output.hand_over(hand_over.worker, hand_over.arrived, hand_over.flow, bytes);
        }
        for question in self.output.drain_questions() {
            output.ask(question);
        }
        for record in self.output.drain_records() {
            for record in spoil_record(self.fault, self.life, record) {
                output.record(record);
            }
        }
    }
}

/// The records that a broken machine makes instead of one.
fn spoil_record(fault: Fault, life: u32, record: Record) -> Vec<Record> {
    let ends = |ended| {
        let Record::Call(event) = &record else {
            return false;
        };
        event.change == Change::Ended(ended)
    };
    let by_caller = ends(Ended::ByCaller);
    match (fault, &record) {
        (Fault::LosesRecords, Record::Call(event))
            if by_caller && event.call.answered.is_none() =>
        {
            Vec::new()
        }
        (Fault::RecordsTwice, Record::Call(event))
            if by_caller && event.call.answered.is_some() =>
        {
            vec![record.clone(), record]
        }
        (Fault::MistakesParties, Record::Call(event)) if by_caller => {
            vec![Record::Call(CallEvent {
                change: Change::Ended(Ended::ByCallee),
                call: event.call.clone(),
            })]
        }
        (Fault::IgnoresByes, Record::Call(event))
            if by_caller && event.call.answered.is_some() && life > 1 =>
        {
            Vec::new()
        }
        (Fault::SavesNothing, Record::Dialog { state: Some(_), .. })
        | (Fault::KeepsRows, Record::Dialog { state: None, .. }) => Vec::new(),
        _ => vec![record],
    }
}

/// The messages that a broken machine sends instead of one message.
fn spoil(
    fault: Fault,
    count: u64,
    answered: &mut Vec<Vec<u8>>,
    flow: Flow,
    bytes: Vec<u8>,
) -> Vec<(Flow, Vec<u8>)> {
    let Ok(message) = Message::parse(&bytes) else {
        return vec![(flow, bytes)];
    };
    let (method, status) = (message.method(), message.status());
    let rewritten = |from: &str, to: &str| {
        String::from_utf8_lossy(&bytes)
            .replace(from, to)
            .into_bytes()
    };
    match fault {
        Fault::LosesResponses if status >= 200 && count.is_multiple_of(5) => Vec::new(),
        Fault::AnswersOnce if status >= 200 => {
            if answered.contains(&bytes) {
                return Vec::new();
            }
            answered.push(bytes.clone());
            vec![(flow, bytes)]
        }
        Fault::ForwardsTwice if status == 0 && method == Method::Invite => {
            let cookie = "branch=z9hG4bK";
            let text = String::from_utf8_lossy(&bytes);
            // The topmost Via is ours. Its branch is lower-case hexadecimal digits.
            let branch = text
                .find(cookie)
                .map_or("", |at| &text[at..][..=cookie.len()]);
            let digit = if branch.ends_with('0') { '1' } else { '0' };
            let again = rewritten(branch, &format!("{cookie}{digit}"));
            vec![(flow, bytes), (flow, again)]
        }
        Fault::RefusesTwice if status == 486 || status == 480 => {
            let again = rewritten(&format!("SIP/2.0 {status}"), "SIP/2.0 500");
            vec![(flow, bytes), (flow, again)]
        }
        Fault::RefusesAndForwards if status == 100 => {
            vec![(flow, rewritten("SIP/2.0 100", "SIP/2.0 480"))]
        }
        Fault::LosesAcks if status == 0 && method == Method::Ack => Vec::new(),
        Fault::LosesCancels if status == 0 && method == Method::Cancel => Vec::new(),
        Fault::KeepsReasons if status == 0 && method == Method::Cancel => {
            vec![(flow, rewritten("Reason: ", "Subject: "))]
        }
        Fault::InventsReasons if status == 0 && method == Method::Cancel => {
            let reason = "CANCEL\r\nReason: SIP;cause=200\r\n";
            vec![(flow, rewritten("CANCEL\r\n", reason))]
        }
        Fault::ForgetsDescriptions if status == 0 => {
            vec![(flow, rewritten("a=host", "a=home"))]
        }
        Fault::Misdirects if status == 0 && message.request_uri().starts_with(b"sip:user1@") => {
            vec![(
                Flow {
                    remote: "198.51.100.9:5060".parse().unwrap(),
                    ..flow
                },
                bytes,
            )]
        }
        Fault::AnswersAtDefaultPort if status > 0 => {
            let mut remote = flow.remote;
            remote.set_port(5060);
            vec![(Flow { remote, ..flow }, bytes)]
        }
        Fault::Multiplies if status == 180 => vec![(flow, bytes); 100],
        _ => vec![(flow, bytes)],
    }
}

impl<N: Node<Record = Record>> Node for BrokenNode<N> {
    type Question = N::Question;
    type Record = N::Record;
    type Control = N::Control;

    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, N::Control>,
        output: &mut Output<N::Question, N::Record>,
    ) {
        self.run(output, |node, output| node.handle(now, input, output));
    }

    fn expire(&mut self, now: Time, output: &mut Output<N::Question, N::Record>) {
        self.run(output, |node, output| node.expire(now, output));
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.fault == Fault::Spins {
            Some(Time::from_micros(0))
        } else {
            self.node.next_deadline()
        }
    }
}

impl Broken {
    fn new(fault: Fault, plan: &HostPlan) -> Self {
        let mut machine = ExchangeMachine::new(plan);
        if fault == Fault::TrustsEverybody {
            let settings = Settings {
                challenge: ChallengedMethods::Listed(Vec::new()),
                ..(*machine.settings).clone()
            };
            machine.settings = Arc::new(settings);
        }
        if matches!(fault, Fault::HangsUpEarly | Fault::HangsUpLate) {
            let mut settings = (*machine.settings).clone();
            // The longest life cuts the agreed intervals.
            if fault == Fault::HangsUpEarly {
                settings.proxy.dialog_lifetime = Duration::from_secs(90);
            } else {
                settings.session_timers = None;
            }
            machine.settings = Arc::new(settings);
        }
        Self {
            fault,
            machine,
            life: 0,
            seen: Vec::new(),
        }
    }
}

impl Machine for Broken {
    type Node = BrokenNode<<ExchangeMachine as Machine>::Node>;

    fn facts(&self) -> HostFacts {
        let mut facts = self.machine.facts();
        if self.fault == Fault::TrustsEverybody {
            facts.challenged = vec!["INVITE".to_owned(), "REGISTER".to_owned()];
        }
        if self.fault == Fault::HangsUpEarly {
            facts.bounds.dialog_lifetime = Duration::from_secs(1_200);
        }
        facts.session_timers |= self.fault == Fault::HangsUpLate;
        facts
    }

    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Self::Node> {
        self.life += 1;
        let (fault, life) = (self.fault, self.life);
        if fault == Fault::ForgetsDialogs {
            self.machine.dialogs = DialogStore::default();
        }
        let broken = |node| BrokenNode {
            fault,
            node,
            output: Output::default(),
            life,
            count: 0,
            answered: Vec::new(),
        };
        self.machine
            .boot(now, key)
            .into_iter()
            .map(broken)
            .collect()
    }

    fn crash(&mut self, now: Time) {
        self.machine.crash(now);
        if self.fault == Fault::LosesRegistrations {
            self.machine.disk.clear();
        }
    }

    fn reply(&mut self, now: Time, question: &QuestionOf<Self>, failing: bool) -> ControlOf<Self> {
        self.machine.reply(now, question, failing)
    }

    fn housekeeping(&mut self, now: Time, orders: &mut Vec<(usize, ControlOf<Self>)>) {
        self.machine.housekeeping(now, orders);
        if self.fault == Fault::KeepsContacts {
            for bound in self.machine.bound_contacts(now) {
                let known = self.seen.iter().any(|seen| seen.contact == bound.contact);
                if !known {
                    self.seen.push(bound);
                }
            }
        }
    }

    fn keep(&mut self, now: Time, record: Record) -> Option<CallEvent> {
        self.machine.keep(now, record)
    }

    fn saved_dialogs(&self) -> Vec<SavedDialog> {
        self.machine.saved_dialogs()
    }

    fn census(&self, node: &Self::Node) -> Census {
        let mut census = self.machine.census(&node.node);
        match self.fault {
            Fault::Leaks if census.servers.ended > 10 => {
                census.servers.ended -= 1;
                census.servers.live += 1;
            }
            Fault::KeepsDialogs if census.dialogs.ended > 0 => {
                census.dialogs.ended -= 1;
                census.dialogs.live += 1;
            }
            Fault::KeepsPlaces if census.dialogs.ended > 0 => census.places.taken += 1,
            Fault::CountsBadly if census.contexts.live > 0 => census.contexts.ended += 1,
            Fault::MisjudgesBytes if census.contexts.live > 0 => census.held.believed /= 2,
            Fault::Overfills => census.parked += 1_000_000,
            _ => {}
        }
        census
    }

    fn bindings(&self) -> Account {
        let mut account = self.machine.bindings();
        if self.fault == Fault::CountsBindingsBadly {
            account.live = account.created;
        }
        account
    }

    fn bound_contacts(&self, now: Time) -> Vec<BoundContact> {
        let mut bound = self.machine.bound_contacts(now);
        bound.extend(self.seen.iter().cloned());
        bound
    }
}

/// Runs seeds until the fault is detected, which must not take many.
fn found_out(fault: Fault, invariant: &str) -> Outcome {
    let run = |seed| simulate(seed, |plan| Broken::new(fault, plan));
    let outcome = (1..60).map(run).find(|outcome| outcome.violation.is_some());
    let outcome = outcome.unwrap_or_else(|| panic!("{fault:?} was not found out"));
    let violation = outcome.violation.as_ref().unwrap();
    assert_eq!(violation.invariant, invariant, "{fault:?}: {violation}");
    assert_eq!(run(outcome.seed), outcome, "the seed replays it");
    outcome
}

#[test]
fn every_fault_is_found_out_by_the_rule_it_breaks() {
    for (fault, invariant) in [
        (Fault::LosesResponses, "answered"),
        (Fault::AnswersOnce, "answered"),
        (Fault::ForwardsTwice, "one_call"),
        (Fault::RefusesTwice, "one_call"),
        (Fault::RefusesAndForwards, "one_call"),
        (Fault::LosesAcks, "relayed"),
        (Fault::LosesCancels, "relayed"),
        (Fault::KeepsReasons, "reasons"),
        (Fault::InventsReasons, "reasons"),
        (Fault::ForgetsDescriptions, "described"),
        (Fault::Misdirects, "no_open_relay"),
        (Fault::AnswersAtDefaultPort, "responses_return"),
        (Fault::TrustsEverybody, "no_foreign_identity"),
        (Fault::Leaks, "every_transaction_ends"),
        (Fault::KeepsDialogs, "dialogs"),
        (Fault::KeepsPlaces, "places"),
        (Fault::CountsBadly, "conservation"),
        (Fault::CountsBindingsBadly, "conservation"),
        (Fault::MisjudgesBytes, "held_bytes"),
        (Fault::Overfills, "bounded"),
        (Fault::Multiplies, "bounded"),
        (Fault::Spins, "bounded"),
        (Fault::KeepsContacts, "location_agrees"),
        (Fault::LosesRegistrations, "location_agrees"),
        (Fault::LosesRecords, "records"),
        (Fault::RecordsTwice, "records"),
        (Fault::MistakesParties, "records"),
        (Fault::SavesNothing, "restored"),
        (Fault::KeepsRows, "restored"),
        (Fault::ForgetsDialogs, "restored"),
        (Fault::IgnoresByes, "restored"),
        (Fault::HangsUpEarly, "sessions"),
        (Fault::HangsUpLate, "sessions"),
    ] {
        found_out(fault, invariant);
    }
}

#[test]
fn a_report_names_the_rule_shows_the_messages_and_tells_how_to_replay() {
    let outcome = found_out(Fault::ForwardsTwice, "one_call");
    let report = outcome.report.as_deref().unwrap();
    for part in [
        "one_call:",
        "Messages of that call",
        "──▶",
        "INVITE sip:",
        "call=",
        "The last message",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let replay = format!(
        "--example simulate -- --seeds 1 --first-seed {}",
        outcome.seed
    );
    assert!(outcome.replay().ends_with(&replay), "{}", outcome.replay());
    let complaint = std::panic::catch_unwind(|| outcome.expect_sound()).unwrap_err();
    let complaint = complaint.downcast_ref::<String>().unwrap();
    assert!(
        complaint.contains("one_call:") && complaint.contains(&outcome.replay()),
        "{complaint}"
    );
}
