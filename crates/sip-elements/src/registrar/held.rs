//! Holds the 200 of a REGISTER back until its bindings are in the database.
//!
//! The operator can ask for this for every REGISTER. Otherwise a worker holds 200s only while saving lags behind.
//!
//! A held 200 is already written. Its number and its bytes are bounded. The binding itself is already in force: only the
//! phone does not know yet, and retransmits. So a crash never loses a registration that was answered with 200, and
//! registrations are confirmed no faster than they can be saved.

use crate::WorkerParts;
use crate::metrics::Stage;
use sip_message::Method;
use sip_transaction::ServerId;
use sip_transport::{Flow, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// The maximum number of answers that a worker holds.
const MOST: usize = 20_000;
/// The maximum total size of these answers in bytes.
const MAX_BYTES: usize = 16 << 20;
/// How long an answer is held at most. Clients stop waiting after 64*T1 (RFC 3261 section 17.1.2.2).
const LONGEST: Duration = Duration::from_secs(32);

/// A 200 that is held back.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    /// The number of the save that it waits for.
    pub(crate) save: u64,
    /// The flow to send it on.
    pub(crate) flow: Flow,
    /// The server transaction of its request, if there is one.
    pub(crate) server: Option<ServerId>,
    /// When the request was received.
    pub(crate) received: Time,
    /// When the kernel received the request.
    pub(crate) arrived: Time,
    /// The complete response.
    pub(crate) bytes: Box<[u8]>,
}

/// The held answers of one worker, oldest first. The numbers of their saves never decrease.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    answers: VecDeque<HeldAnswer>,
    bytes: usize,
}

impl HeldAnswers {
    /// Whether another answer would exceed a bound.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= MOST || self.bytes >= MAX_BYTES
    }

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

    /// Sends the answers whose save has succeeded.
    pub(crate) fn release(&mut self, parts: &mut WorkerParts<'_>) {
        let locations = &parts.shared.locations;
        while let Some(answer) = self.pop(|answer| locations.is_saved(answer.save)) {
            send(parts, &answer);
        }
    }

    /// Drops the answers whose clients have stopped waiting.
    pub(crate) fn expire(&mut self, parts: &mut WorkerParts<'_>) {
        while let Some(answer) = self.pop(|answer| answer.received + LONGEST <= parts.now) {
            if let Some(server) = answer.server {
                parts.transactions.silence_server(parts.now, server);
            }
            parts.metrics.held_answers_dropped.increment();
        }
    }

    /// The earliest time at which `expire` has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.answers.front().map(|answer| answer.received + LONGEST)
    }

    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }
}

fn send(parts: &mut WorkerParts<'_>, answer: &HeldAnswer) {
    let write = |into: &mut Vec<u8>| into.extend_from_slice(&answer.bytes);
    let metrics = parts.metrics;
    if let Some(latency) = metrics.latency.get(Method::Register.label_index()) {
        latency.record(parts.now - answer.received);
    }
    if let Some(latency) = metrics.stages.get(Stage::Registration as usize) {
        latency.record(parts.now - answer.arrived);
    }
    if let Some(server) = answer.server {
        parts
            .transactions
            .respond(parts.now, server, 200, parts.output, write);
    } else {
        parts.output.send(answer.flow, write);
    }
    parts.metrics.sent(Method::Register.label_index(), 200);
}
