//! Matches messages: an incoming message with the outgoing message that results from it.
//!
//! | outgoing message | incoming message | matched by Call-ID, `CSeq` and |
//! | --- | --- | --- |
//! | a request | the same request | the branch of the Via below the server's |
//! | a relayed response | the same response | the branch of the Via that becomes topmost, status and To tag |
//! | another response | the request | the branch of the topmost Via |
//!
//! A proxy adds its Via to requests and removes it from responses, so the client's Via is the same on both sides of it (RFC 3261 section
//! 16). Only the first message counts: a message that enters or leaves again is counted, but is not a sample.

use crate::capture::{Moment, Time};
use crate::counters::{Counter, Counters};
use crate::figures::Step;
use crate::message::Observed;
use crate::waiting::{Table, Waiting};
use sip_message::{KeyHasher, Method};

/// Two matching messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The step between them.
    pub step: Step,
    /// When the first one entered.
    pub came: Moment,
}

/// Matches messages.
#[derive(Debug)]
pub struct Pairs {
    hasher: KeyHasher,
    table: Table,
}

impl Pairs {
    /// `secret` for the keys of the table, its maximum size, and how long a message is remembered, in nanoseconds.
    pub fn new(secret: (u64, u64), most: u32, lifetime: i64) -> Self {
        Self {
            hasher: KeyHasher::new(secret),
            table: Table::new(most, lifetime),
        }
    }

    /// Processes a message that entered the server.
    pub fn came(&mut self, moment: Moment, message: &Observed<'_>, counters: &mut Counters) {
        self.expire(moment.time, counters);
        let is_request = message.status.is_none();
        let key = match (message.status, message.second_branch) {
            (None, _) => {
                // The ACK of an error response ends at the server: it has the branch of its INVITE (section 17.1.1.3).
                if message.cseq.method == Method::Ack {
                    let invite = self.request_key(message, &Method::Invite, message.branch);
                    if self.table.get_mut(invite).is_some() {
                        return;
                    }
                }
                self.request_key(message, &message.cseq.method, message.branch)
            }
            // 100 is for this hop only (section 16.7).
            (Some(100), _) => return,
            (Some(_), None) => {
                counters.add(Counter::OwnRequests, 1);
                return;
            }
            (Some(status), Some(branch)) => self.response_key(message, status, branch),
        };
        let waiting = Waiting {
            came: moment,
            is_request,
            is_authenticated: message.is_authenticated,
            tried: false,
            forwarded: false,
            answered: false,
        };
        if !self.table.insert(key, waiting) {
            counters.add(Counter::Retransmissions, 1);
        }
        while let Some(forgotten) = self.table.surplus() {
            if forgotten.is_open() {
                counters.add(Counter::Forgotten, 1);
            }
        }
    }

    /// Processes a message that left the server. Returns its match, if this is the first time.
    pub fn left(
        &mut self,
        now: Time,
        message: &Observed<'_>,
        counters: &mut Counters,
    ) -> Option<Pair> {
        self.expire(now, counters);
        match message.status {
            None => self.request_left(message, counters),
            Some(status) => self.response_left(message, status, counters),
        }
    }

    fn request_left(&mut self, message: &Observed<'_>, counters: &mut Counters) -> Option<Pair> {
        let Some(branch) = message.second_branch else {
            counters.add(Counter::OwnRequests, 1);
            return None;
        };
        let key = self.request_key(message, &message.cseq.method, branch);
        let Some(request) = self.table.get_mut(key) else {
            counters.add(Counter::Unmatched, 1);
            return None;
        };
        if request.forwarded {
            counters.add(Counter::Copies, 1);
            return None;
        }
        request.forwarded = true;
        let step = if request.is_authenticated {
            Step::AuthenticatedForwarded
        } else {
            Step::Forwarded
        };
        let came = request.came;
        Some(Pair { step, came })
    }

    fn response_left(
        &mut self,
        message: &Observed<'_>,
        status: u16,
        counters: &mut Counters,
    ) -> Option<Pair> {
        let branch = message.branch;
        if status != 100 {
            let key = self.response_key(message, status, branch);
            if let Some(response) = self.table.get_mut(key) {
                if response.answered {
                    counters.add(Counter::Retransmissions, 1);
                    return None;
                }
                response.answered = true;
                let step = match status {
                    ..200 => Step::ProvisionalRelayed,
                    200..300 => Step::SuccessRelayed,
                    300.. => Step::FailureRelayed,
                };
                let came = response.came;
                return Some(Pair { step, came });
            }
        }
        let key = self.request_key(message, &message.cseq.method, branch);
        let Some(request) = self.table.get_mut(key) else {
            counters.add(Counter::Unmatched, 1);
            return None;
        };
        let came = request.came;
        let (step, again) = match status {
            100 => (Step::Trying, std::mem::replace(&mut request.tried, true)),
            _ if request.forwarded && !request.answered => {
                request.answered = true;
                counters.add(Counter::LateAnswers, 1);
                return None;
            }
            401 | 407 => (
                Step::Challenged,
                std::mem::replace(&mut request.answered, true),
            ),
            _ => (
                Step::Answered,
                std::mem::replace(&mut request.answered, true),
            ),
        };
        if again {
            counters.add(Counter::Retransmissions, 1);
            return None;
        }
        Some(Pair { step, came })
    }

    /// Counts messages without a match, at the end of the capture.
    pub fn finish(&self, counters: &mut Counters) {
        for waiting in self.table.iter().filter(|waiting| waiting.is_open()) {
            counters.add(given_up(waiting), 1);
        }
    }

    /// Number of remembered messages.
    pub fn remembered(&self) -> usize {
        self.table.len()
    }

    fn expire(&mut self, now: Time, counters: &mut Counters) {
        while let Some(expired) = self.table.expired(now) {
            if expired.is_open() {
                counters.add(given_up(&expired), 1);
            }
        }
    }

    fn request_key(&self, message: &Observed<'_>, method: &Method<'_>, branch: &[u8]) -> u64 {
        let number = message.cseq.number.to_le_bytes();
        let parts = [message.call_id, &number, method.as_bytes(), branch];
        self.hasher.hash(&parts)
    }

    fn response_key(&self, message: &Observed<'_>, status: u16, branch: &[u8]) -> u64 {
        let number = message.cseq.number.to_le_bytes();
        let method = message.cseq.method.as_bytes();
        let status = status.to_le_bytes();
        let parts = [
            message.call_id,
            &number,
            method,
            branch,
            &status,
            message.to_tag,
        ];
        self.hasher.hash(&parts)
    }
}

/// The counter for a message without a match.
const fn given_up(waiting: &Waiting) -> Counter {
    if waiting.is_request {
        Counter::Unanswered
    } else {
        Counter::Unrelayed
    }
}
