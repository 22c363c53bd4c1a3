//! A hierarchical timer wheel: O(1) arm and cancel, and no allocation once warm.
//!
//! Time is divided into ticks. Four wheels of slots, each coarser than the one before, hold doubly linked lists of timers. One bit per slot
//! says whether it is occupied, so empty time costs nothing, however long it is. A timer goes into the finest wheel that reaches far
//! enough. It moves to a finer wheel when the time reaches the start of its slot.
//!
//! The finest wheel covers more than 41 seconds, because transactions wait for 32 seconds (64*T1). These are nearly all timers of a busy
//! node. If the finest wheel were small, all of them would have to move once, tens of thousands at the same moment.

use sip_transport::{Slab, SlabId, Tenant, Time};
use std::num::NonZeroU16;

/// Microseconds in a tick.
const TICK: u64 = 5_000;

/// One wheel: `slots` slots of 2^`shift` ticks, from `first` on in the common list of slots.
struct Level {
    shift: u32,
    first: usize,
    slots: usize,
}

/// Reach: 41 seconds, 87 minutes, 23 hours, 248 days. A later timer waits in the last slot and is inserted again from there. Every number
/// of slots is a multiple of 64, and a wheel reaches at least as far as one slot of the next.
const LEVELS: [Level; 4] = [
    Level {
        shift: 0,
        first: 0,
        slots: 8192,
    },
    Level {
        shift: 8,
        first: 8192,
        slots: 4096,
    },
    Level {
        shift: 16,
        first: 12288,
        slots: 256,
    },
    Level {
        shift: 24,
        first: 12544,
        slots: 256,
    },
];
const SLOTS: usize = 12800;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// Identifies an armed timer. A stale id is recognised by its generation and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(SlabId);

impl TimerId {
    /// Identifies no timer.
    pub(crate) const NONE: Self = Self(SlabId::NONE);
}

/// Timers that carry a small value. The resolution is 5 ms (T1/100), and a timer never fires early.
#[derive(Debug)]
pub struct TimerWheel<T> {
    /// The tick up to which all timers have been handled.
    elapsed: u64,
    /// No occupied slot begins before this tick. After a cancel it may be too early, but it is never too late.
    earliest: u64,
    /// The first timer of each slot.
    heads: Box<[u32]>,
    /// One bit per slot, set if it has a timer.
    occupied: Box<[u64]>,
    timers: Slab<Timer<T>>,
}

#[derive(Debug)]
struct Timer<T> {
    tick: u64,
    previous: u32,
    next: u32,
    generation: u32,
    slot: SlotNumber,
    value: T,
}

impl<T> Tenant for Timer<T> {
    fn generation(&self) -> u32 {
        self.generation
    }
}

/// Place in the common list of slots, plus one: the unused zero lets `Option<Timer>` cost no memory.
#[derive(Clone, Copy, Debug)]
struct SlotNumber(NonZeroU16);

impl SlotNumber {
    const fn new(slot: usize) -> Self {
        Self(NonZeroU16::MIN.saturating_add(slot as u16))
    }

    const fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl<T: Copy> TimerWheel<T> {
    /// Creates an empty wheel that starts at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            elapsed: now.as_micros() / TICK,
            earliest: u64::MAX,
            heads: vec![NIL; SLOTS].into_boxed_slice(),
            occupied: vec![0; SLOTS / 64].into_boxed_slice(),
            timers: Slab::new(0),
        }
    }

    /// Arms a timer. O(1).
    pub fn arm(&mut self, at: Time, value: T) -> TimerId {
        let (tick, slot) = self.place(at.as_micros().div_ceil(TICK));
        let id = self.timers.insert(|id| Timer {
            tick,
            previous: NIL,
            next: NIL,
            generation: id.generation,
            slot,
            value,
        });
        self.link(id.index, slot);
        TimerId(id)
    }

    /// Disarms a timer, or does nothing if it has already fired. O(1).
    pub fn cancel(&mut self, id: TimerId) {
        if self.is_armed(id) {
            self.unlink(id.0.index);
            self.timers.remove_at(id.0.index);
        }
    }

    /// Moves an armed timer to another time and replaces its value; if it is not armed, arms a new one. O(1), and cheaper than `cancel` and
    /// `arm`.
    pub fn rearm(&mut self, id: TimerId, at: Time, value: T) -> TimerId {
        if !self.is_armed(id) {
            return self.arm(at, value);
        }
        self.unlink(id.0.index);
        let (tick, slot) = self.place(at.as_micros().div_ceil(TICK));
        if let Some(timer) = self.timers.at_mut(id.0.index) {
            (timer.tick, timer.slot, timer.value) = (tick, slot, value);
        }
        self.link(id.0.index, slot);
        id
    }

    /// Disarms and returns the next timer that is due at `now`. Call it until it returns `None`; you may arm timers in between. Timers fire
    /// in the order of their ticks, and within one tick in no particular order.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        let now = now.as_micros() / TICK;
        if now < self.earliest {
            self.elapsed = self.elapsed.max(now);
            return None;
        }
        loop {
            let finest = slot_at(&LEVELS[0], self.elapsed);
            let head = self.heads[finest];
            if head != NIL {
                self.unlink(head);
                return self.timers.remove_at(head).map(|timer| timer.value);
            }
            let (begins, slot) = self.next_occupied();
            self.earliest = begins;
            if begins > now {
                self.elapsed = self.elapsed.max(now);
                return None;
            }
            self.elapsed = begins;
            if slot != slot_at(&LEVELS[0], begins) {
                self.cascade(slot);
            }
        }
    }

    /// A cheap lower bound for sleeping: never later than the earliest timer.
    pub fn next_deadline(&self) -> Option<Time> {
        (!self.is_empty()).then(|| Time::from_micros(self.earliest.saturating_mul(TICK)))
    }

    /// The number of armed timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_armed(&self, id: TimerId) -> bool {
        self.timers.get(id.0).is_some()
    }

    /// The slot for a timer at this tick. A tick in the past is due at once. Also updates `earliest`.
    fn place(&mut self, tick: u64) -> (u64, SlotNumber) {
        let tick = tick.max(self.elapsed);
        let mut level = &LEVELS[0];
        for candidate in &LEVELS {
            level = candidate;
            if (tick >> level.shift) - (self.elapsed >> level.shift) < level.slots as u64 {
                break;
            }
        }
        let furthest = (self.elapsed >> level.shift) + level.slots as u64 - 1;
        let begins = (tick >> level.shift).min(furthest) << level.shift;
        self.earliest = self.earliest.min(begins);
        (tick, SlotNumber::new(slot_at(level, begins)))
    }

    fn link(&mut self, index: u32, slot: SlotNumber) {
        let slot = slot.get();
        let first = std::mem::replace(&mut self.heads[slot], index);
        if let Some(timer) = self.timers.at_mut(first) {
            timer.previous = index;
        }
        if let Some(timer) = self.timers.at_mut(index) {
            (timer.previous, timer.next) = (NIL, first);
        }
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn unlink(&mut self, index: u32) {
        let Some(timer) = self.timers.at(index) else {
            return;
        };
        let (previous, next, slot) = (timer.previous, timer.next, timer.slot.get());
        if let Some(timer) = self.timers.at_mut(next) {
            timer.previous = previous;
        }
        if let Some(timer) = self.timers.at_mut(previous) {
            timer.next = next;
            return;
        }
        self.heads[slot] = next;
        if next == NIL {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Moves the timers of a coarse slot to finer slots when the time reaches its start.
    fn cascade(&mut self, slot: usize) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        let mut index = std::mem::replace(&mut self.heads[slot], NIL);
        while let Some(timer) = self.timers.at(index) {
            let (tick, next) = (timer.tick, timer.next);
            let (_, slot) = self.place(tick);
            if let Some(timer) = self.timers.at_mut(index) {
                timer.slot = slot;
            }
            self.link(index, slot);
            index = next;
        }
    }

    /// The start of the occupied slot that begins first, and the slot; `u64::MAX` if there is none.
    fn next_occupied(&self) -> (u64, usize) {
        let mut found = (u64::MAX, 0);
        for level in &LEVELS {
            let position = self.elapsed >> level.shift;
            if let Some(distance) = self.occupied_from(level, position as usize % level.slots) {
                let begins = (position + distance as u64) << level.shift;
                if begins < found.0 {
                    found = (begins, slot_at(level, begins));
                }
            }
        }
        found
    }

    /// The distance from `start` to the first occupied slot, with wrap-around.
    fn occupied_from(&self, level: &Level, start: usize) -> Option<usize> {
        let words = &self.occupied[level.first / 64..(level.first + level.slots) / 64];
        let ahead = words[start / 64] & (u64::MAX << (start % 64));
        if ahead != 0 {
            return Some(ahead.trailing_zeros() as usize - start % 64);
        }
        // The word of `start` is searched again at the end, for the bits below `start`.
        (1..=words.len()).find_map(|step| {
            let word = (start / 64 + step) % words.len();
            let bit = (words[word] != 0).then(|| words[word].trailing_zeros() as usize)?;
            Some(step * 64 + bit - start % 64)
        })
    }
}

/// The slot of a level that contains a tick.
const fn slot_at(level: &Level, tick: u64) -> usize {
    level.first + (tick >> level.shift) as usize % level.slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_small() {
        let size = size_of::<Option<Timer<crate::schedule::Due>>>();
        println!("timer: {size} bytes in its slab");
        assert!(size <= 32, "{size} bytes");
    }

    #[test]
    fn a_wheel_reaches_one_slot_of_the_next_and_is_made_of_whole_words() {
        for pair in LEVELS.windows(2) {
            assert!((pair[0].slots as u64) << pair[0].shift >= 1 << pair[1].shift);
            assert_eq!(pair[0].first + pair[0].slots, pair[1].first);
        }
        assert!(
            LEVELS
                .iter()
                .all(|level| level.slots.is_power_of_two() && level.slots % 64 == 0)
        );
        assert_eq!(LEVELS[3].first + LEVELS[3].slots, SLOTS);
    }
}
