//! Responses that wait until the control plane has seen their session description. The responses of a context leave in the
//! order in which they arrived, so those behind a waiting one wait too.

use super::context::{Context, ContextScope};
use super::reason;
use super::timer::Deadline;
use crate::metrics::DropReason;
use crate::owner::{DescribedId, ResponseId};
use crate::{Question, description};
use sip_message::{HeaderName, Message};
use sip_transaction::TimerId;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// The maximum number of responses that wait in a context, apart from the first final response of each branch.
const MOST: usize = 8;
/// The maximum total size of these responses in bytes.
const MAX_BYTES: usize = 64 << 10;

/// The waiting responses of one context.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Oldest first. The question of the first one is open.
    responses: VecDeque<WaitingResponse>,
    /// The deadline of the open question. If no response waits: the end of the time in which the callee may repeat its 2xx.
    timer: Option<TimerId>,
    /// A 2xx to an INVITE has passed. The callee may repeat it, and the session description must be replaced again.
    has_accepted: bool,
}

/// A response, and where it came from.
#[derive(Debug)]
pub(super) struct WaitingResponse {
    /// Its branch.
    pub(super) place: u8,
    pub(super) from: IpAddr,
    pub(super) bytes: Arc<[u8]>,
    is_final: bool,
}

impl WaitingResponse {
    /// The response with another body, or unchanged if it would be too long.
    pub(super) fn with_body(self, body: &[u8]) -> Self {
        let replaced = Message::parse(&self.bytes)
            .ok()
            .and_then(|response| description::with_body(&response, body));
        let bytes = replaced.unwrap_or(self.bytes);
        Self { bytes, ..self }
    }
}

impl Waiting {
    /// Bytes that the responses hold.
    pub(super) fn bytes(&self) -> usize {
        self.responses
            .iter()
            .map(|response| response.bytes.len())
            .sum()
    }

    /// Whether a response is the first final one of its branch. No other one replaces it, so it must not be lost.
    fn is_first_final(&self, place: u8, response: &Message<'_>) -> bool {
        let is_earlier = |waiting: &WaitingResponse| waiting.place == place && waiting.is_final;
        response.status() >= 200 && !self.responses.iter().any(is_earlier)
    }

    fn fits(&self, response: &Message<'_>) -> bool {
        self.responses.len() < MOST && self.bytes() + response.bytes().len() <= MAX_BYTES
    }
}

impl Context {
    /// Whether responses wait.
    pub(super) fn has_waiting_responses(&self) -> bool {
        self.waiting
            .as_ref()
            .is_some_and(|waiting| !waiting.responses.is_empty())
    }

    /// Lets a response wait if the control plane must see it first, or if another one waits. Returns whether it was taken.
    pub(super) fn take_to_wait(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, IpAddr),
    ) -> bool {
        let is_first = !self.has_waiting_responses();
        if (is_first && !is_asked_for(scope, response)) || !self.may_pass(response) {
            return false;
        }
        let ledger = scope.parts.transactions.ledger();
        let has_room = ledger.has_room(response.bytes().len());
        if is_first && !has_room {
            // Without memory to wait, it passes unchanged: the call goes on.
            return false;
        }
        let waiting = self.waiting.get_or_insert_default();
        let is_taken = is_first
            || waiting.is_first_final(place, response)
            || (has_room && waiting.fits(response));
        if !is_taken {
            // It was provisional, or its sender repeats it.
            scope.parts.metrics.dropped(DropReason::WaitingFull);
            return true;
        }
        waiting.responses.push_back(WaitingResponse {
            place,
            from,
            bytes: response.bytes().into(),
            is_final: response.status() >= 200,
        });
        if is_first {
            self.ask_for_description(scope);
        }
        self.note_arrival(scope, place, response.status());
        true
    }

    /// Whether a response may go upstream. The others are dropped, so that it makes no difference what they contain.
    fn may_pass(&self, response: &Message<'_>) -> bool {
        let is_provisional = response.status() < 200;
        response.status() != 100
            && response.values(HeaderName::Via).nth(1).is_some()
            && !(is_provisional && (self.is_concluded || !self.is_invite))
    }

    /// Updates the branches when a response has arrived, although it waits. A 2xx to an INVITE will pass, so no other phone is called
    /// any more.
    fn note_arrival(&mut self, scope: &mut ContextScope<'_, '_>, place: u8, status: u16) {
        if status < 200 {
            return self.note_progress(scope, place);
        }
        self.disarm(scope, place);
        if self.is_invite && status < 300 {
            self.cancel_pending(scope, reason::ANSWERED_ELSEWHERE);
        }
    }

    /// Asks the control plane about the first waiting response.
    fn ask_for_description(&mut self, scope: &mut ContextScope<'_, '_>) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let Some(first) = waiting.responses.front() else {
            return;
        };
        self.questions = self.questions.wrapping_add(1);
        scope.parts.output.ask(Question::Describe {
            ticket: DescribedId::Response(ResponseId {
                context: scope.key,
                number: self.questions.into(),
            }),
            message: Arc::clone(&first.bytes),
            source: first.from,
        });
        scope.parts.metrics.questions.increment();
        let deadline = scope.parts.now + scope.parts.settings.question_deadline;
        let timer = Deadline::Waiting(scope.key);
        waiting.timer = Some(match waiting.timer.take() {
            Some(armed) => scope.wheel.rearm(armed, deadline, timer),
            None => scope.wheel.arm(deadline, timer),
        });
    }

    /// Takes out the response that the question with this number is about, if the question is still open.
    pub(super) fn answered(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        number: u32,
    ) -> Option<WaitingResponse> {
        let waiting = self.waiting.as_mut()?;
        if u32::from(self.questions) != number || waiting.responses.is_empty() {
            return None;
        }
        if let Some(timer) = waiting.timer.take() {
            scope.wheel.cancel(timer);
        }
        waiting.responses.pop_front()
    }

    /// Takes out the next response that need not wait any longer. If the control plane must see the next one, and may be asked, asks it.
    pub(super) fn next_waiting(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
        asks: bool,
    ) -> Option<WaitingResponse> {
        let first = self.waiting.as_mut()?.responses.front()?;
        let is_asked_for =
            Message::parse(&first.bytes).is_ok_and(|response| is_asked_for(scope, &response));
        if asks && is_asked_for {
            self.ask_for_description(scope);
            return None;
        }
        self.waiting.as_mut()?.responses.pop_front()
    }

    /// Handles the timer of the waiting responses. Takes out the one whose question was not answered in time.
    pub(super) fn waiting_timer(
        &mut self,
        scope: &mut ContextScope<'_, '_>,
    ) -> Option<WaitingResponse> {
        let waiting = self.waiting.as_mut()?;
        waiting.timer = None;
        let Some(first) = waiting.responses.pop_front() else {
            self.waiting = None;
            return None;
        };
        scope.parts.metrics.questions_expired.increment();
        // An answer that still comes is about no other response.
        self.questions = self.questions.wrapping_add(1);
        Some(first)
    }

    /// Decides whether a context that has had waiting responses stays. After a 2xx to an INVITE, it stays as long as the callee may
    /// repeat the 2xx (RFC 3261 section 13.3.1.4).
    pub(super) fn linger(&mut self, scope: &mut ContextScope<'_, '_>) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        if !self.is_concluded || !waiting.responses.is_empty() || waiting.timer.is_some() {
            return;
        }
        if self.is_invite && waiting.has_accepted {
            let end = scope.parts.now + scope.parts.settings.timers.t1 * 64;
            waiting.timer = Some(scope.wheel.arm(end, Deadline::Waiting(scope.key)));
            waiting.has_accepted = false;
        } else {
            self.waiting = None;
        }
    }

    /// Notes that a 2xx to an INVITE has passed.
    pub(super) fn note_success(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.has_accepted = true;
        }
    }
}

/// Whether the control plane must see a response. Descriptions in failures describe no session.
fn is_asked_for(scope: &ContextScope<'_, '_>, response: &Message<'_>) -> bool {
    response.status() < 300 && description::is_asked_for(scope.parts.settings, response)
}
