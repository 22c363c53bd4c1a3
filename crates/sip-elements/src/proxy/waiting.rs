//! Responses that wait until the control plane has seen their session description. The responses of a context leave in the
//! order in which they arrived, so those behind a waiting one wait too.

use super::context::{Context, Turn};
use super::timer::Deadline;
use crate::metrics::DropReason;
use crate::owner::{DescribedId, ResponseId};
use crate::{Question, SessionDescriptions, description};
use sip_message::Message;
use sip_transaction::TimerId;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The maximum number of responses that wait in a context, apart from the first final response of each branch.
const MOST: usize = 8;
/// The maximum total size of these responses in bytes.
const MOST_BYTES: usize = 64 << 10;

/// The waiting responses of one context.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Oldest first. The question of the first one is open.
    responses: VecDeque<WaitingResponse>,
    /// The number of the open question, or of the last one. An answer to an earlier question comes too late.
    number: u32,
    /// The deadline of the open question, or the end of the time in which the callee may repeat its 2xx.
    timer: Option<TimerId>,
    /// A 2xx to an INVITE has passed. The callee may repeat it, and the session description must be replaced again.
    expects_repetitions: bool,
}

/// A response, and where it came from.
#[derive(Debug)]
pub(super) struct WaitingResponse {
    /// Its branch.
    pub(super) place: u8,
    pub(super) from: IpAddr,
    pub(super) bytes: Box<[u8]>,
}

impl Waiting {
    /// Bytes that the responses hold.
    pub(super) fn bytes(&self) -> usize {
        self.responses
            .iter()
            .map(|response| response.bytes.len())
            .sum()
    }

    /// Whether there is room for another response. What is refused was provisional, or its sender repeats it. The first final
    /// response of a branch is neither.
    fn has_room(&self, place: u8, response: &Message<'_>) -> bool {
        let is_final = |waiting: &&WaitingResponse| {
            waiting.place == place
                && Message::parse(&waiting.bytes).is_ok_and(|waiting| waiting.status() >= 200)
        };
        let is_first_final =
            response.status() >= 200 && self.responses.iter().find(is_final).is_none();
        let fits =
            self.responses.len() < MOST && self.bytes() + response.bytes().len() <= MOST_BYTES;
        is_first_final || self.responses.is_empty() || fits
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
        turn: &mut Turn<'_, '_>,
        place: u8,
        (response, from): (&Message<'_>, IpAddr),
    ) -> bool {
        let settings = turn.round.settings;
        if settings.proxy.session_descriptions == SessionDescriptions::Pass
            && !self.has_waiting_responses()
        {
            return false;
        }
        let is_asked_for = is_asked_for(turn, response);
        if response.status() == 100 || !(is_asked_for || self.has_waiting_responses()) {
            return false;
        }
        let waiting = self.waiting.get_or_insert_default();
        if !waiting.has_room(place, response) {
            turn.round.metrics.dropped(DropReason::WaitingFull);
            return true;
        }
        waiting.responses.push_back(WaitingResponse {
            place,
            from,
            bytes: response.bytes().into(),
        });
        if waiting.responses.len() == 1 {
            self.ask_for_description(turn);
        }
        // The response has arrived, even if it has not been processed.
        if response.status() < 200 {
            self.note_progress(turn, place);
        } else {
            self.disarm(turn, place);
        }
        true
    }

    /// Asks the control plane about the first waiting response.
    fn ask_for_description(&mut self, turn: &mut Turn<'_, '_>) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let Some(first) = waiting.responses.front() else {
            return;
        };
        waiting.number = waiting.number.wrapping_add(1);
        turn.round.output.ask(Question::Describe {
            ticket: DescribedId::Response(ResponseId {
                context: turn.key,
                number: waiting.number,
            }),
            message: first.bytes.clone(),
            source: first.from,
        });
        turn.round.metrics.questions.increment();
        let deadline = turn.round.now + turn.round.settings.question_deadline;
        let timer = Deadline::Waiting(turn.key);
        waiting.timer = Some(match waiting.timer.take() {
            Some(armed) => turn.wheel.rearm(armed, deadline, timer),
            None => turn.wheel.arm(deadline, timer),
        });
    }

    /// Takes out the response that the question with this number is about, if the question is still open.
    pub(super) fn answered(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
    ) -> Option<WaitingResponse> {
        let waiting = self.waiting.as_mut()?;
        if waiting.number != number || waiting.responses.is_empty() {
            return None;
        }
        if let Some(timer) = waiting.timer.take() {
            turn.wheel.cancel(timer);
        }
        waiting.responses.pop_front()
    }

    /// Takes out the next response that need not wait any longer. If the control plane must see the next one, asks it.
    pub(super) fn next_waiting(&mut self, turn: &mut Turn<'_, '_>) -> Option<WaitingResponse> {
        let first = self.waiting.as_mut()?.responses.front()?;
        let is_asked_for =
            Message::parse(&first.bytes).is_ok_and(|response| is_asked_for(turn, &response));
        if is_asked_for {
            self.ask_for_description(turn);
            return None;
        }
        self.waiting.as_mut()?.responses.pop_front()
    }

    /// Handles the timer of the waiting responses. Returns the number of the question whose deadline has passed.
    pub(super) fn waiting_timer(&mut self, turn: &mut Turn<'_, '_>) -> Option<u32> {
        let waiting = self.waiting.as_mut()?;
        waiting.timer = None;
        if waiting.responses.is_empty() {
            self.waiting = None;
            return None;
        }
        turn.round.metrics.questions_expired.increment();
        Some(waiting.number)
    }

    /// Decides whether a context that has had waiting responses stays. After a 2xx to an INVITE, it stays as long as the callee may
    /// repeat the 2xx (RFC 3261 section 13.3.1.4).
    pub(super) fn expect_repetitions(&mut self, turn: &mut Turn<'_, '_>) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        if !self.is_concluded || !waiting.responses.is_empty() || waiting.timer.is_some() {
            return;
        }
        if self.is_invite && waiting.expects_repetitions {
            let end = turn.round.now + turn.round.settings.timers.t1 * 64;
            waiting.timer = Some(turn.wheel.arm(end, Deadline::Waiting(turn.key)));
            waiting.expects_repetitions = false;
        } else {
            self.waiting = None;
        }
    }

    /// Notes that a 2xx to an INVITE has passed.
    pub(super) fn note_success(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.expects_repetitions = true;
        }
    }
}

/// Whether the control plane must see a response. Descriptions in failures describe no session.
fn is_asked_for(turn: &Turn<'_, '_>, response: &Message<'_>) -> bool {
    response.status() < 300 && description::is_asked_for(turn.round.settings, response)
}
