//! Answers to REGISTER that wait until what they say is in the database: always, if the operator wants it so, otherwise while saving lags behind.
//!
//! A held 200 is written and lies here, bounded in number and bytes. The binding itself is in force already; only its owner does not know
//! yet, and asks again. So a 200 that was sent is never lost by a crash, and registrations come no faster than they can be saved.

use crate::Round;
use crate::metrics::Stage;
use sip_message::Method;
use sip_transaction::ServerId;
use sip_transport::{Flow, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Most answers that a worker holds.
const MOST: usize = 20_000;
/// Most bytes of them.
const MOST_BYTES: usize = 16 << 20;
/// How long an answer is held. Clients stop waiting after 64*T1 (RFC 3261 section 17.1.2.2).
const LONGEST: Duration = Duration::from_secs(32);

/// A 200 that waits.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    /// The save that it waits for.
    pub(crate) save: u64,
    /// Where it goes.
    pub(crate) flow: Flow,
    /// The transaction of its request, if that has one.
    pub(crate) server: Option<ServerId>,
    /// When the request was received.
    pub(crate) received: Time,
    /// When the kernel had received it.
    pub(crate) arrived: Time,
    /// The response.
    pub(crate) bytes: Box<[u8]>,
}

/// Those of one worker, oldest first. The numbers of their saves never fall.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    answers: VecDeque<HeldAnswer>,
    bytes: usize,
}

impl HeldAnswers {
    /// Whether there is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= MOST || self.bytes >= MOST_BYTES
    }

    /// Holds an answer.
    pub(crate) fn hold(&mut self, answer: HeldAnswer) {
        self.bytes += answer.bytes.len();
        self.answers.push_back(answer);
    }

    fn pop(&mut self, is_due: impl FnOnce(&HeldAnswer) -> bool) -> Option<HeldAnswer> {
        if !self.answers.front().is_some_and(is_due) {
            return None;
        }
        let answer = self.answers.pop_front()?;
        self.bytes -= answer.bytes.len();
        Some(answer)
    }

    /// Sends those whose save has succeeded.
    pub(crate) fn release(&mut self, round: &mut Round<'_>) {
        let locations = &round.shared.locations;
        while let Some(answer) = self.pop(|answer| locations.is_saved(answer.save)) {
            send(round, &answer);
        }
    }

    /// Drops answers whose clients have stopped waiting.
    pub(crate) fn expire(&mut self, round: &mut Round<'_>) {
        while let Some(answer) = self.pop(|answer| answer.received + LONGEST <= round.now) {
            if let Some(server) = answer.server {
                round.transactions.silence_server(round.now, server);
            }
            round.metrics.held_answers_dropped.increment();
        }
    }

    /// When `expire` has something to do at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.answers.front().map(|answer| answer.received + LONGEST)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }
}

fn send(round: &mut Round<'_>, answer: &HeldAnswer) {
    let write = |into: &mut Vec<u8>| into.extend_from_slice(&answer.bytes);
    let metrics = round.metrics;
    if let Some(latency) = metrics.latency.get(Method::Register.label_index()) {
        latency.record(round.now - answer.received);
    }
    if let Some(latency) = metrics.stages.get(Stage::Registration as usize) {
        latency.record(round.now - answer.arrived);
    }
    if let Some(server) = answer.server {
        round
            .transactions
            .respond(round.now, server, 200, round.output, write);
    } else {
        round.output.send(answer.flow, write);
    }
    round.metrics.sent(Method::Register.label_index(), 200);
}
