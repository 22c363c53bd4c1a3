//! Compares the timer wheel with a model that sorts.

use proptest::prelude::*;
use sip_transaction::{TimerId, TimerWheel};
use sip_transport::Time;
use std::collections::BTreeMap;
use std::time::Duration;

const TICK: u64 = 5_000;

/// An arbitrary day, not at the start of a tick.
const START: Time = Time::from_micros(1_763_600_000_001_234);

#[derive(Clone, Debug)]
enum Step {
    /// Arms a timer this much later (or, if negative, earlier).
    Arm(i64),
    /// Cancels one of the timers armed so far.
    Cancel(prop::sample::Index),
    Rearm(prop::sample::Index, i64),
    /// Advances the time without popping.
    Advance(u64),
    /// Pops at most this many timers.
    Pop(usize),
    /// Advances the time to the next deadline.
    Sleep,
}

/// A duration from microseconds to years: a random number with a random count of bits.
fn duration() -> impl Strategy<Value = i64> {
    (0u32..50, any::<u64>()).prop_map(|(bits, random)| (random & ((1 << bits) - 1)).cast_signed())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => duration().prop_map(Step::Arm),
        1 => (0i64..20_000).prop_map(|early| Step::Arm(-early)),
        2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (any::<prop::sample::Index>(), duration()).prop_map(|(which, after)| Step::Rearm(which, after)),
        2 => duration().prop_map(|time| Step::Advance(time.unsigned_abs())),
        2 => (0usize..10).prop_map(Step::Pop),
        2 => Just(Step::Sleep),
    ]
}

/// The expected behaviour: serial numbers of timers, with the ticks at which they are due.
struct Model {
    wheel: TimerWheel<usize>,
    now: Time,
    armed: BTreeMap<usize, u64>,
    ids: Vec<TimerId>,
}

impl Model {
    fn new() -> Self {
        Self {
            wheel: TimerWheel::new(START),
            now: START,
            armed: BTreeMap::new(),
            ids: Vec::new(),
        }
    }

    fn later(&self, after: i64) -> Time {
        Time::from_micros(self.now.as_micros().saturating_add_signed(after))
    }

    fn arm(&mut self, after: i64) {
        let at = self.later(after);
        let serial = self.ids.len();
        self.ids.push(self.wheel.arm(at, serial));
        self.armed.insert(serial, at.as_micros().div_ceil(TICK));
    }

    fn cancel(&mut self, serial: usize) {
        self.wheel.cancel(self.ids[serial]);
        self.armed.remove(&serial);
    }

    /// A timer that has fired or been cancelled is armed as a new one.
    fn rearm(&mut self, serial: usize, after: i64) {
        let at = self.later(after);
        let id = self.wheel.rearm(self.ids[serial], at, serial);
        assert_eq!(id == self.ids[serial], self.armed.contains_key(&serial));
        self.ids[serial] = id;
        self.armed.insert(serial, at.as_micros().div_ceil(TICK));
    }

    /// A timer that fires must be armed and due. If none fires, none may be due.
    fn pop(&mut self) -> bool {
        let tick = self.now.as_micros() / TICK;
        if let Some(serial) = self.wheel.pop_due(self.now) {
            let due = self.armed.remove(&serial).expect("armed");
            assert!(due <= tick, "fired {} ticks early", due - tick);
            return true;
        }
        assert!(
            self.armed.values().all(|&due| due > tick),
            "something due did not fire"
        );
        assert!(
            self.wheel
                .next_deadline()
                .is_none_or(|next| next > self.now),
            "no progress"
        );
        false
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.armed.len());
        assert_eq!(self.wheel.is_empty(), self.armed.is_empty());
        let earliest = self.armed.values().min();
        match (self.wheel.next_deadline(), earliest) {
            (None, None) => {}
            (Some(next), Some(&tick)) => {
                // A timer armed for the past is due at once, in the current tick.
                let tick = tick.max(self.now.as_micros() / TICK);
                assert!(next.as_micros() <= tick * TICK, "wakes too late");
            }
            (next, earliest) => panic!("next deadline {next:?}, earliest {earliest:?}"),
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Arm(after) => self.arm(*after),
            Step::Cancel(which) if !self.ids.is_empty() => self.cancel(which.index(self.ids.len())),
            Step::Rearm(which, after) if !self.ids.is_empty() => {
                self.rearm(which.index(self.ids.len()), *after);
            }
            Step::Cancel(_) | Step::Rearm(..) => {}
            Step::Advance(time) => self.now = self.now + Duration::from_micros(*time),
            Step::Pop(times) => while_limited(*times, || self.pop()),
            Step::Sleep => {
                self.now = self
                    .wheel
                    .next_deadline()
                    .map_or(self.now, |next| next.max(self.now));
            }
        }
    }
}

fn while_limited(times: usize, mut go_on: impl FnMut() -> bool) {
    let _ = (0..times).all(|_| go_on());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_wheel_does_what_the_model_does(steps in prop::collection::vec(step(), 0..100)) {
        let mut model = Model::new();
        for step in &steps {
            model.take(step);
            model.check();
        }
        model.now = model.now + Duration::from_secs(1 << 32);
        while model.pop() {}
        prop_assert!(model.wheel.is_empty());
    }

    #[test]
    fn timers_fire_in_the_order_of_their_ticks(delays in prop::collection::vec(duration(), 0..300)) {
        let mut wheel = TimerWheel::new(START);
        for &delay in &delays {
            let at = START + Duration::from_micros(delay.unsigned_abs());
            wheel.arm(at, at.as_micros().div_ceil(TICK));
        }
        let end = START + Duration::from_secs(1 << 32);
        let fired: Vec<u64> = std::iter::from_fn(|| wheel.pop_due(end)).collect();
        prop_assert!(fired.is_sorted());
        prop_assert_eq!(fired.len(), delays.len());
    }
}

#[test]
fn a_timer_fires_at_most_one_tick_late() {
    for micros in [1, 4_999, 5_000, 500_000, 41_000_000, 3_600_000_000] {
        let mut wheel = TimerWheel::new(START);
        let at = START + Duration::from_micros(micros);
        wheel.arm(at, ());
        assert_eq!(
            wheel.pop_due(Time::from_micros(at.as_micros() - 1)),
            None,
            "{micros} early"
        );
        assert_eq!(
            wheel.pop_due(at + Duration::from_micros(TICK)),
            Some(()),
            "{micros} late"
        );
    }
}

#[test]
fn sleeping_until_a_far_deadline_wakes_a_few_times_only() {
    for days in [1, 10, 100, 1000] {
        let mut wheel = TimerWheel::new(START);
        let at = START + Duration::from_secs(86_400 * days);
        wheel.arm(at, ());
        let mut wakes = 0;
        let fired = loop {
            let now = wheel.next_deadline().expect("armed");
            wakes += 1;
            if wheel.pop_due(now).is_some() {
                break now;
            }
        };
        assert!(fired >= at && fired - at < Duration::from_micros(TICK));
        assert!(wakes <= 9, "{wakes} for {days} days");
    }
}

#[test]
fn a_stale_id_cancels_nothing() {
    let mut wheel = TimerWheel::new(START);
    let fired = wheel.arm(START, 'a');
    assert_eq!(wheel.pop_due(START + Duration::from_millis(5)), Some('a'));
    let cancelled = wheel.arm(START + Duration::from_secs(1), 'b');
    wheel.cancel(cancelled);
    let live = wheel.arm(START + Duration::from_secs(1), 'c');
    wheel.cancel(fired);
    wheel.cancel(cancelled);
    assert_eq!(wheel.len(), 1);
    wheel.cancel(live);
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
}

#[test]
fn a_clock_that_stands_still_or_steps_back_fires_nothing_twice() {
    let mut wheel = TimerWheel::new(START);
    wheel.arm(START + Duration::from_millis(10), 1);
    assert_eq!(wheel.pop_due(START + Duration::from_millis(20)), Some(1));
    assert_eq!(wheel.pop_due(START), None);
    wheel.arm(START + Duration::from_millis(12), 2);
    assert_eq!(wheel.pop_due(START + Duration::from_millis(11)), None);
    assert_eq!(wheel.pop_due(START + Duration::from_millis(25)), Some(2));
    assert_eq!(wheel.pop_due(START + Duration::from_millis(25)), None);
}

#[test]
fn timers_at_the_edges_of_the_wheels_are_on_time() {
    for edge in [256, 8192, 1 << 16, 4096 << 8, 256 << 16, 256 << 24] {
        for ticks in edge - 3..=edge + 3 {
            for begin in [0, 1, 255, 256, 8191, 8192, 65_535] {
                let at = |tick: u64| Time::from_micros((begin + tick) * TICK);
                let mut wheel = TimerWheel::new(at(0));
                wheel.arm(at(ticks), ());
                assert_eq!(
                    wheel.pop_due(at(ticks - 1)),
                    None,
                    "{ticks} ticks from {begin}: early"
                );
                assert_eq!(
                    wheel.pop_due(at(ticks)),
                    Some(()),
                    "{ticks} ticks from {begin}: late"
                );
            }
        }
    }
}
