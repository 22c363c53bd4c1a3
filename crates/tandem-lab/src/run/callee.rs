//! The callee's side of calls: 180, 200, and 200 for BYE. It can repeat each response from the request alone.

use super::figures::Delay;
use super::messages::{CALLEE, number_in, respond};
use super::phones::{Alarm, Out, Phones};
use rustc_hash::{FxHashMap, FxHasher};
use sip_message::{Message, Method};
use sip_transaction::TimerId;
use sip_transport::{Flow, Time, response_flow};
use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// How long an ended call is remembered, to detect retransmissions: 64*T1.
const REMEMBERED: Duration = Duration::from_secs(32);
/// Maximum number of calls to remember.
const MOST: usize = 4_000_000;

/// The calls that phones of a worker received.
#[derive(Debug, Default)]
pub(super) struct Callees {
    calls: FxHashMap<u64, Taken>,
    /// Ended calls, oldest first.
    ended: VecDeque<(Time, u64)>,
}

#[derive(Debug)]
struct Taken {
    stage: Progress,
    flow: Flow,
    /// Data for the next response: the INVITE while it rings, then the 200 until it is acknowledged.
    kept: Box<[u8]>,
    timer: Option<TimerId>,
    interval: Duration,
    answered: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Ringing,
    Answered,
    Up,
    Over,
}

impl Callees {
    /// Forgets calls that ended long ago.
    pub(super) fn forget(&mut self, now: Time) {
        while let Some(&(at, key)) = self.ended.front()
            && at <= now
        {
            self.ended.pop_front();
            self.calls.remove(&key);
        }
    }

    fn end(&mut self, now: Time, key: u64) {
        if let Some(taken) = self.calls.get_mut(&key)
            && taken.stage != Progress::Over
        {
            taken.stage = Progress::Over;
            taken.kept = Box::default();
            self.ended.push_back((now + REMEMBERED, key));
        }
    }
}

impl Phones {
    /// Handles a request to one of the phones.
    pub(super) fn request(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        output: Out<'_>,
    ) {
        let (Some(call_id), Some(via)) = (request.call_id(), request.top_via()) else {
            self.figures.nonsense += 1;
            return;
        };
        let key = key_of(call_id, request);
        let back = response_flow(flow, &via);
        match request.method() {
            Method::Invite => self.called(now, key, back, request, output),
            Method::Ack => self.acknowledged(key),
            Method::Bye => self.hung_up(now, key, back, request, output),
            Method::Cancel => self.cancelled(now, key, back, request, output),
            _ => self.say(200, back, request, output),
        }
    }

    /// The phone of this thread that a request is for.
    fn called_phone(&self, request: &Message<'_>) -> Option<u32> {
        let user = request.uri()?.user?;
        let phone = self.plan.subscribers.user.number(user)?;
        let place = phone.checked_sub(self.first)?;
        ((place as usize) < self.memories.len()).then_some(phone)
    }

    fn called(&mut self, now: Time, key: u64, back: Flow, request: &Message<'_>, output: Out<'_>) {
        if let Some(taken) = self.callees.calls.get(&key) {
            self.figures.retransmissions_received += 1;
            return match taken.stage {
                Progress::Ringing => self.say(180, back, request, output),
                Progress::Answered => {
                    self.figures.retransmissions_sent += 1;
                    self.figures.answers_retransmitted += 1;
                    output.send(taken.flow, |into| into.extend_from_slice(&taken.kept));
                }
                Progress::Up | Progress::Over => {}
            };
        }
        if self.callees.calls.len() >= MOST {
            return self.say(503, back, request, output);
        }
        self.figures.calls_taken += 1;
        self.measure_forwarding(now, request);
        self.say(180, back, request, output);
        let ringing = self.plan.call.ringing;
        let rings = !ringing.is_zero();
        let taken = Taken {
            stage: Progress::Ringing,
            flow: back,
            kept: request.bytes().into(),
            timer: rings.then(|| self.wheel.arm(now + ringing, Alarm::Lift(key))),
            interval: T1,
            answered: now,
        };
        self.callees.calls.insert(key, taken);
        if !rings {
            self.lift(now, key, output);
        }
    }

    /// Records the transit time of an INVITE if a phone of this run sent it.
    fn measure_forwarding(&mut self, now: Time, request: &Message<'_>) {
        let number = request.call_id().and_then(number_in);
        if let Some(since) = number.and_then(|number| self.shared.invited.of(number)) {
            let delay = now.saturating_since(since);
            self.figures.record(Delay::Forwarding, delay);
        }
    }

    /// Answers a call after ringing: sends 200.
    pub(super) fn lift(&mut self, now: Time, key: u64, output: Out<'_>) {
        let Some(taken) = self.callees.calls.get_mut(&key) else {
            return;
        };
        let invite = std::mem::take(&mut taken.kept);
        let flow = taken.flow;
        let Ok(request) = Message::parse(&invite) else {
            return;
        };
        if let Some(number) = request.call_id().and_then(number_in) {
            self.shared.answered.note(number, now);
        }
        let range = self.say_and_show(200, flow, &request, output);
        let timer = self.wheel.arm(now + T1, Alarm::Repeat(key));
        if let Some(taken) = self.callees.calls.get_mut(&key) {
            taken.stage = Progress::Answered;
            taken.kept = output.written(range).into();
            taken.timer = Some(timer);
            taken.answered = now;
        }
    }

    /// Retransmits an unacknowledged 200 (RFC 3261 section 13.3.1.4).
    pub(super) fn repeat(&mut self, now: Time, key: u64, output: Out<'_>) {
        let Some(taken) = self.callees.calls.get_mut(&key) else {
            return;
        };
        if taken.stage != Progress::Answered {
            return;
        }
        if now.saturating_since(taken.answered) >= T1 * 64 {
            self.callees.end(now, key);
            let reason = ("callees", "unacknowledged".to_owned());
            *self.figures.failures.entry(reason).or_default() += 1;
            return;
        }
        self.figures.retransmissions_sent += 1;
        self.figures.answers_retransmitted += 1;
        output.send(taken.flow, |into| into.extend_from_slice(&taken.kept));
        taken.interval = (taken.interval * 2).min(T2);
        taken.timer = Some(self.wheel.arm(now + taken.interval, Alarm::Repeat(key)));
    }

    fn acknowledged(&mut self, key: u64) {
        match self.callees.calls.get_mut(&key) {
            Some(taken) if taken.stage == Progress::Answered => {
                taken.stage = Progress::Up;
                taken.kept = Box::default();
                if let Some(timer) = taken.timer.take() {
                    self.wheel.cancel(timer);
                }
            }
            Some(_) => self.figures.retransmissions_received += 1,
            None => self.figures.late_messages += 1,
        }
    }

    fn hung_up(&mut self, now: Time, key: u64, back: Flow, request: &Message<'_>, output: Out<'_>) {
        let Some(taken) = self.callees.calls.get_mut(&key) else {
            let reason = (
                "callees",
                "BYE of an unknown call, answered with 481".to_owned(),
            );
            *self.figures.failures.entry(reason).or_default() += 1;
            return self.say(481, back, request, output);
        };
        if taken.stage == Progress::Over {
            self.figures.retransmissions_received += 1;
        }
        if let Some(timer) = taken.timer.take() {
            self.wheel.cancel(timer);
        }
        self.callees.end(now, key);
        self.say(200, back, request, output);
    }

    fn cancelled(
        &mut self,
        now: Time,
        key: u64,
        back: Flow,
        request: &Message<'_>,
        output: Out<'_>,
    ) {
        let Some(taken) = self.callees.calls.get_mut(&key) else {
            return self.say(481, back, request, output);
        };
        if taken.stage != Progress::Ringing {
            // The INVITE already has its final response, so the CANCEL has no effect (RFC 3261 section 9.2).
            return self.say(200, back, request, output);
        }
        if let Some(timer) = taken.timer.take() {
            self.wheel.cancel(timer);
        }
        let (invite, flow) = (std::mem::take(&mut taken.kept), taken.flow);
        self.callees.end(now, key);
        self.say(200, back, request, output);
        if let Ok(invite) = Message::parse(&invite) {
            self.say(487, flow, &invite, output);
        }
    }

    fn say(&self, status: u16, back: Flow, request: &Message<'_>, output: Out<'_>) {
        self.say_and_show(status, back, request, output);
    }

    fn say_and_show(
        &self,
        status: u16,
        back: Flow,
        request: &Message<'_>,
        output: Out<'_>,
    ) -> std::ops::Range<usize> {
        let port = &self.ports[usize::from(back.listener.0)];
        let phone = self.called_phone(request);
        let contact = |into: &mut Vec<u8>| {
            let phone = phone.unwrap_or(self.first);
            port.write_contact(&self.plan.subscribers, phone, into);
        };
        output.send(back, |into| {
            respond(request, (status, CALLEE), back.remote, contact, into);
        })
    }
}

/// Key of a call at its callee: Call-ID and the caller's tag.
fn key_of(call_id: &[u8], request: &Message<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(call_id);
    if let Some(tag) = request.from().and_then(|from| from.tag()) {
        hasher.write(tag);
    }
    hasher.finish()
}
