//! The timers of one transaction: two deadlines, one entry on the wheel.
//!
//! A transaction has at most two running timers: one that retransmits (A, E, G) and one that ends it (the others). Only the earlier one is
//! on the wheel; the later one is a number here. This costs one entry of 32 bytes per transaction instead of two. A typical transaction is
//! answered before any timer fires; it takes one arm and one move instead of two arms and two cancels. The entry is moved when a deadline
//! changes, so the wheel never wakes up for a stale entry.

use crate::step::Timers;
use crate::timer::Timer;
use crate::wheel::{TimerId, TimerWheel};
use sip_transport::Time;
use std::time::Duration;

/// The value of a timer on the wheel: its transaction, and which timer it is. Flat, so that it has 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) index: u32,
    pub(crate) side: Side,
    pub(crate) timer: Timer,
}

/// The slab that a transaction lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// Identifies a transaction by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) side: Side,
    pub(crate) index: u32,
}

/// The timers of one transaction.
#[derive(Debug)]
pub(crate) struct Schedule {
    on_wheel: TimerId,
    /// When `end_timer` fires: the low 32 bits of milliseconds since the epoch. No timer runs for 24 days, which is half of their range.
    end: u32,
    end_timer: Timer,
    /// How often the kept message has been retransmitted. It is never reset, because no machine has two retransmission timers.
    retransmissions: u8,
    /// Whether the transport is reliable. It is no deadline, but it fits into the padding here.
    pub(crate) reliable: bool,
}

impl Schedule {
    /// A schedule without running timers.
    pub(crate) const fn new(reliable: bool) -> Self {
        Self {
            on_wheel: TimerId::NONE,
            end: 0,
            end_timer: Timer::B,
            retransmissions: 0,
            reliable,
        }
    }

    /// Executes the timer changes of a step.
    pub(crate) fn follow(
        &mut self,
        timers: Timers,
        now: Time,
        wheel: &mut TimerWheel<Due>,
        place: Place,
    ) {
        match timers {
            Timers::AsIs => {}
            Timers::Stop => self.stop(wheel),
            Timers::Repeat(timer, after) => self.repeat(timer, after, now, wheel, place),
            Timers::Start {
                repeat,
                end: (timer, after),
            } => {
                self.end = (now + after).as_micros().div_ceil(1000) as u32;
                self.end_timer = timer;
                match repeat {
                    Some((timer, after)) => self.repeat(timer, after, now, wheel, place),
                    None => self.arm(self.end(now), self.end_timer, wheel, place),
                }
            }
        }
    }

    /// Stops all timers.
    pub(crate) fn stop(&mut self, wheel: &mut TimerWheel<Due>) {
        wheel.cancel(self.on_wheel);
        self.on_wheel = TimerId::NONE;
    }

    /// Records that the entry on the wheel has fired. Returns the number of retransmissions, including the one that follows.
    pub(crate) fn fired(&mut self) -> u8 {
        self.on_wheel = TimerId::NONE;
        self.retransmissions = self.retransmissions.saturating_add(1);
        self.retransmissions
    }

    /// Arms the retransmission, or the end if the retransmission would not come earlier.
    fn repeat(
        &mut self,
        timer: Timer,
        after: Duration,
        now: Time,
        wheel: &mut TimerWheel<Due>,
        place: Place,
    ) {
        let (again, end) = (now + after, self.end(now));
        if again < end {
            self.arm(again, timer, wheel, place);
        } else {
            self.arm(end, self.end_timer, wheel, place);
        }
    }

    fn arm(&mut self, at: Time, timer: Timer, wheel: &mut TimerWheel<Due>, place: Place) {
        let Place { side, index } = place;
        self.on_wheel = wheel.rearm(self.on_wheel, at, Due { index, side, timer });
    }

    /// The end as a time. A time in the past becomes `now`.
    fn end(&self, now: Time) -> Time {
        let now = now.as_micros() / 1000;
        let remaining = u64::try_from(self.end.wrapping_sub(now as u32).cast_signed()).unwrap_or(0);
        Time::from_micros((now + remaining).saturating_mul(1000))
    }
}
