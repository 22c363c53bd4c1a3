//! The timers of one transaction: two deadlines, one entry on the wheel.
//!
//! At most two timers of a transaction run at a time, one that repeats (A, E, G) and one that ends (the others). Only the earlier one
//! is on the wheel; the later one is a number here. That costs one entry of 32 bytes per transaction instead of two, and for the
//! usual transaction, which is answered before anything fires, one arm and one move instead of two arms and two cancels.
//! The entry always says the truth (it is moved, not left to fire in vain), so the wheel wakes nobody for nothing.

use crate::step::Timers;
use crate::timer::Timer;
use crate::wheel::{TimerId, TimerWheel};
use sip_transport::Time;
use std::time::Duration;

/// What a timer on the wheel carries: whose it is, and which. Flat, so that it has 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) index: u32,
    pub(crate) side: Side,
    pub(crate) timer: Timer,
}

/// Which slab a transaction lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// A transaction by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) side: Side,
    pub(crate) index: u32,
}

/// The timers of one transaction.
#[derive(Debug)]
pub(crate) struct Schedule {
    on_wheel: TimerId,
    /// When `end_timer` fires: the low half of milliseconds since the epoch. No timer runs for the 24 days that half of them spans.
    end: u32,
    end_timer: Timer,
    /// How often the message kept has gone out again. Never set back: no machine has two timers that repeat.
    retransmissions: u8,
    /// Not a time, but there is room for it here: the transport delivers by itself.
    pub(crate) reliable: bool,
}

impl Schedule {
    /// No timer runs.
    pub(crate) const fn new(reliable: bool) -> Self {
        Self {
            on_wheel: TimerId::NONE,
            end: 0,
            end_timer: Timer::B,
            retransmissions: 0,
            reliable,
        }
    }

    /// Does what a machine said.
    pub(crate) fn follow(
        &mut self,
        timers: Timers,
        now: Time,
        wheel: &mut TimerWheel<Due>,
        owner: Owner,
    ) {
        match timers {
            Timers::AsIs => {}
            Timers::Stop => self.stop(wheel),
            Timers::Repeat(timer, after) => self.repeat(timer, after, now, wheel, owner),
            Timers::Start {
                repeat,
                end: (timer, after),
            } => {
                self.end = (now + after).as_micros().div_ceil(1000) as u32;
                self.end_timer = timer;
                match repeat {
                    Some((timer, after)) => self.repeat(timer, after, now, wheel, owner),
                    None => self.arm(self.end(now), self.end_timer, wheel, owner),
                }
            }
        }
    }

    /// No timer runs any more.
    pub(crate) fn stop(&mut self, wheel: &mut TimerWheel<Due>) {
        wheel.cancel(self.on_wheel);
        self.on_wheel = TimerId::NONE;
    }

    /// Its entry on the wheel has fired. Returns the retransmissions there have been, with the one that a repeating timer brings.
    pub(crate) fn fired(&mut self) -> u8 {
        self.on_wheel = TimerId::NONE;
        self.retransmissions = self.retransmissions.saturating_add(1);
        self.retransmissions
    }

    /// A retransmission that would come no earlier than the end never comes.
    fn repeat(
        &mut self,
        timer: Timer,
        after: Duration,
        now: Time,
        wheel: &mut TimerWheel<Due>,
        owner: Owner,
    ) {
        let (again, end) = (now + after, self.end(now));
        if again < end {
            self.arm(again, timer, wheel, owner);
        } else {
            self.arm(end, self.end_timer, wheel, owner);
        }
    }

    fn arm(&mut self, at: Time, timer: Timer, wheel: &mut TimerWheel<Due>, owner: Owner) {
        let Owner { side, index } = owner;
        self.on_wheel = wheel.rearm(self.on_wheel, at, Due { index, side, timer });
    }

    /// The end as a time; what has passed counts as now.
    fn end(&self, now: Time) -> Time {
        let now = now.as_micros() / 1000;
        let remaining = u64::try_from(self.end.wrapping_sub(now as u32).cast_signed()).unwrap_or(0);
        Time::from_micros((now + remaining).saturating_mul(1000))
    }
}
