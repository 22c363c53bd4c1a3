//! Calls per second with a burst: a token bucket that is one atomic number.
//!
//! The number is the *theoretical arrival time* of the generic cell rate algorithm (ITU-T I.371): when the next call would arrive if all
//! calls came evenly spaced. A call may arrive earlier by the time in which the burst refills. In the words of a token bucket: the
//! bucket is full at the theoretical arrival time, and each call moves that time by one interval.
//!
//! - **Resolution.** Nanoseconds. The interval between two calls is rounded up, so a bucket never admits more than its rate: at 100,000
//!   calls per second at most 0.01 % less, at 1,000 at most 0.0001 % less. A rate that divides a billion is exact.
//! - **A burst of 1** demands even spacing: a call that comes late leaves nothing to the next one. The rate is reached only by callers who
//!   are never late.
//! - **Range.** Until the year 2554. Later times saturate.
//! - **A clock that goes forward** fills the bucket. It never holds more than the burst.
//! - **A clock that goes back**, or a rate that was raised, leaves a theoretical arrival time that is too far in the future. If it is more
//!   than [`MAX_SKEW`] beyond what the burst explains, the bucket counts as empty from now on. So the limit refuses calls for at
//!   most a second longer than its rate demands. Workers whose clocks differ by less lose and gain nothing.

use sip_transport::Time;
use std::sync::atomic::{AtomicU64, Ordering};

/// The lowest rate above 0, in calls per second.
pub const MIN_RATE: f64 = 0.001;
/// The highest rate, in calls per second.
pub const MAX_RATE: f64 = 100_000.0;
/// The highest burst, in calls.
pub const MAX_BURST: u32 = 1_000_000;

/// By how many nanoseconds the clocks of two workers may differ.
const MAX_SKEW: u64 = 1_000_000_000;

/// How many calls a second may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds between two calls.
    interval: u64,
    /// Nanoseconds in which an empty bucket fills. 0: the rate admits no call.
    depth: u64,
}

impl Rate {
    /// Creates a rate. `None`: `calls_per_second` is neither 0 nor between [`MIN_RATE`] and [`MAX_RATE`], or `burst` is not between 1
    /// and [`MAX_BURST`]. A rate of 0 admits no call.
    pub fn new(calls_per_second: f64, burst: u32) -> Option<Self> {
        if !(1..=MAX_BURST).contains(&burst) {
            return None;
        }
        if calls_per_second == 0.0 {
            return Some(Self {
                interval: 0,
                depth: 0,
            });
        }
        if !(MIN_RATE..=MAX_RATE).contains(&calls_per_second) {
            return None;
        }
        #[expect(
            clippy::cast_sign_loss,
            reason = "between 10,000 and a million million"
        )]
        let interval = (1e9 / calls_per_second).ceil() as u64;
        Some(Self {
            interval,
            depth: interval.saturating_mul(burst.into()),
        })
    }

    /// New calls per second, which are rounded down to whole nanoseconds between two calls.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub const fn calls_per_second(&self) -> f64 {
        match self.interval {
            0 => 0.0,
            interval => 1e9 / interval as f64,
        }
    }

    /// Whether no call passes.
    pub const fn is_zero(&self) -> bool {
        self.depth == 0
    }

    /// Where a call at `now` moves the theoretical arrival time, and whether it is admitted. A refused call moves it only after the clock
    /// went back.
    fn step(&self, arrival: u64, now: u64) -> (u64, bool) {
        let latest = now.saturating_add(self.depth);
        if arrival > latest.saturating_add(MAX_SKEW) {
            return (latest, false);
        }
        let next = arrival.max(now).saturating_add(self.interval);
        if next <= latest {
            (next, true)
        } else {
            (arrival, false)
        }
    }
}

/// What a rate has admitted so far. The rate is an argument, so a reload may change it while the bucket stays.
#[derive(Debug, Default)]
pub(crate) struct Bucket(AtomicU64);

impl Bucket {
    /// Charges a call. Returns whether it is admitted.
    pub(crate) fn admit(&self, rate: &Rate, now: Time) -> bool {
        if rate.is_zero() {
            return false;
        }
        let now = nanoseconds(now);
        let mut arrival = self.0.load(Ordering::Acquire);
        loop {
            let (next, is_admitted) = rate.step(arrival, now);
            if next == arrival {
                return is_admitted;
            }
            let swapped =
                self.0
                    .compare_exchange_weak(arrival, next, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return is_admitted,
                Err(present) => arrival = present,
            }
        }
    }

    /// Takes back the charge of a call that another limit refused.
    ///
    /// It is as if the call had never been charged, unless calls of other workers were charged in between. Of these, each may then count
    /// as if it had arrived at the time of the refused call, which is microseconds earlier.
    pub(super) fn refund(&self, rate: &Rate) {
        let less = |arrival: u64| Some(arrival.saturating_sub(rate.interval));
        // Always succeeds, because `less` always returns a value.
        let _before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Whether the bucket is full, so that a new one would behave alike. After the clock went back, the bucket counts as full.
    pub(super) fn is_full(&self, rate: &Rate, now: Time) -> bool {
        let now = nanoseconds(now);
        let arrival = self.0.load(Ordering::Acquire);
        let latest = now.saturating_add(rate.depth).saturating_add(MAX_SKEW);
        arrival <= now || arrival > latest
    }
}

const fn nanoseconds(time: Time) -> u64 {
    time.as_micros().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_800_000_000_000_000;

    fn at(micros: u64) -> Time {
        Time::from_micros(START + micros)
    }

    fn rate(calls_per_second: f64, burst: u32) -> Rate {
        Rate::new(calls_per_second, burst).expect("a rate")
    }

    /// How many calls are admitted at once.
    fn admitted(bucket: &Bucket, rate: &Rate, now: Time) -> usize {
        (0..10_000).take_while(|_| bucket.admit(rate, now)).count()
    }

    #[test]
    fn a_bucket_admits_its_burst_and_then_its_rate() {
        for (calls_per_second, burst, seconds, step, expected) in [
            (10.0, 1, 10, 1000, 101),
            (10.0, 5, 10, 1000, 105),
            (0.5, 1, 60, 10_000, 31),
            (0.5, 3, 59, 10_000, 32),
            (1000.0, 100, 3, 500, 3100),
            (100_000.0, 1, 1, 10, 100_001),
            (0.001, 2, 3000, 1_000_000, 5),
        ] {
            let (bucket, rate) = (Bucket::default(), rate(calls_per_second, burst));
            let times = (0..=seconds * 1_000_000).step_by(step);
            let calls: usize = times.map(|time| admitted(&bucket, &rate, at(time))).sum();
            assert_eq!(calls, expected, "{calls_per_second}/s, burst {burst}");
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_a_second_is_never_exceeded() {
        for calls_per_second in [3_u32, 7, 999, 70_000, 99_999] {
            let (bucket, rate) = (Bucket::default(), rate(calls_per_second.into(), 10));
            let times = (0..=1_000_000).step_by(50);
            let calls: usize = times.map(|time| admitted(&bucket, &rate, at(time))).sum();
            let most = calls_per_second as usize + 10;
            let least = most - most / 10_000 - 1;
            assert!((least..=most).contains(&calls), "{calls} of {most}");
        }
    }

    #[test]
    fn a_rate_of_zero_admits_no_call() {
        let (bucket, rate) = (Bucket::default(), rate(0.0, 10));
        assert!(rate.is_zero());
        assert_eq!(admitted(&bucket, &rate, at(0)), 0);
        assert_eq!(admitted(&bucket, &rate, at(3_600_000_000)), 0);
    }

    #[test]
    fn rates_and_bursts_outside_the_range_are_not_created() {
        for (calls_per_second, burst) in [
            (-1.0, 1),
            (f64::NAN, 1),
            (f64::INFINITY, 1),
            (0.000_9, 1),
            (100_001.0, 1),
            (1.0, 0),
            (0.0, 0),
            (1.0, MAX_BURST + 1),
        ] {
            let created = Rate::new(calls_per_second, burst);
            assert_eq!(created, None, "{calls_per_second}, {burst}");
        }
        for (calls_per_second, burst) in [(MIN_RATE, MAX_BURST), (MAX_RATE, 1), (-0.0, 1)] {
            assert!(Rate::new(calls_per_second, burst).is_some());
        }
    }

    #[test]
    fn a_refunded_call_was_never_charged() {
        let (bucket, rate) = (Bucket::default(), rate(1.0, 3));
        assert!(bucket.admit(&rate, at(0)));
        for _ in 0..100 {
            assert!(bucket.admit(&rate, at(0)));
            bucket.refund(&rate);
        }
        assert_eq!(admitted(&bucket, &rate, at(0)), 2);
        assert_eq!(admitted(&bucket, &rate, at(1_000_000)), 1);
    }

    #[test]
    fn a_clock_that_goes_back_empties_the_bucket_and_no_more() {
        let (bucket, rate) = (Bucket::default(), rate(10.0, 5));
        let hour = 3_600_000_000;
        assert_eq!(admitted(&bucket, &rate, at(hour)), 5);
        assert_eq!(admitted(&bucket, &rate, at(0)), 0);
        assert_eq!(admitted(&bucket, &rate, at(99_999)), 0);
        assert_eq!(admitted(&bucket, &rate, at(100_000)), 1);
        assert_eq!(admitted(&bucket, &rate, at(hour)), 5);
    }

    #[test]
    fn a_worker_with_an_older_time_gains_no_call() {
        let (bucket, rate) = (Bucket::default(), rate(10.0, 5));
        assert_eq!(admitted(&bucket, &rate, at(900_000)), 5);
        assert_eq!(admitted(&bucket, &rate, at(0)), 0);
        assert_eq!(admitted(&bucket, &rate, at(900_000)), 0);
        assert_eq!(admitted(&bucket, &rate, at(1_000_000)), 1);
    }

    #[test]
    fn a_clock_that_goes_far_forward_brings_one_burst() {
        let (bucket, rate) = (Bucket::default(), rate(10.0, 5));
        assert_eq!(admitted(&bucket, &rate, at(0)), 5);
        assert_eq!(admitted(&bucket, &rate, at(1_000_000_000_000)), 5);
        assert!(bucket.admit(&rate, Time::from_micros(u64::MAX)));
    }

    #[test]
    fn a_raised_rate_holds_within_a_second_and_a_lowered_rate_at_once() {
        let (bucket, slow, fast) = (Bucket::default(), rate(1.0, 100), rate(1000.0, 10));
        assert_eq!(admitted(&bucket, &slow, at(0)), 100);
        assert_eq!(admitted(&bucket, &fast, at(0)), 0);
        assert_eq!(admitted(&bucket, &fast, at(1000)), 1);
        assert_eq!(admitted(&bucket, &slow, at(1000)), 99);
        let bucket = Bucket::default();
        assert_eq!(admitted(&bucket, &fast, at(0)), 10);
        assert_eq!(admitted(&bucket, &rate(1.0, 1), at(9_000)), 0);
    }

    /// A token bucket in exact arithmetic: credit is counted in nanoseconds.
    struct Model {
        credit: u64,
        at: u64,
    }

    impl Model {
        fn admit(&mut self, interval: u64, burst: u64, now: u64) -> bool {
            let gained = now.saturating_sub(self.at) * 1000;
            self.at = now;
            self.credit = (self.credit + gained).min(interval * burst);
            let is_admitted = self.credit >= interval;
            if is_admitted {
                self.credit -= interval;
            }
            is_admitted
        }
    }

    proptest! {
        #[test]
        fn a_bucket_behaves_like_the_model(
            thousandths in 1_u32..100_000_000,
            burst in 1_u32..50,
            steps in prop::collection::vec((0_u64..3, 0_u64..2_000_000), 1..300),
        ) {
            let calls_per_second = f64::from(thousandths) / 1000.0;
            let (bucket, rate) = (Bucket::default(), rate(calls_per_second, burst));
            let mut model = Model { credit: rate.depth, at: START };
            let mut now = START;
            for (pace, step) in steps {
                now += [0, step % 1000, step][pace as usize];
                let expected = model.admit(rate.interval, burst.into(), now);
                prop_assert_eq!(bucket.admit(&rate, Time::from_micros(now)), expected);
                let is_full = model.credit == rate.depth;
                prop_assert_eq!(bucket.is_full(&rate, Time::from_micros(now)), is_full);
            }
        }
    }
}
