//! Response times, counted exactly in the buckets asked for, and as distributions.

use hdrhistogram::Histogram;
use sip_message::Method;

/// Longest response time that is told apart, in nanoseconds: two minutes.
const LONGEST: u64 = 120_000_000_000;

/// Between which two messages of a transaction the server's time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A request came; 401 or 407 left.
    Challenged,
    /// A request with credentials came; it was forwarded.
    AuthenticatedForwarded,
    /// A request without credentials came; it was forwarded.
    Forwarded,
    /// A request came; 100 left.
    Trying,
    /// A request came; a response of the server's own left.
    Answered,
    /// A provisional response came, and left.
    ProvisionalRelayed,
    /// A 2xx came, and left.
    SuccessRelayed,
    /// A final response of another class came, and left.
    FailureRelayed,
}

impl Step {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Challenged,
        Self::AuthenticatedForwarded,
        Self::Forwarded,
        Self::Trying,
        Self::Answered,
        Self::ProvisionalRelayed,
        Self::SuccessRelayed,
        Self::FailureRelayed,
    ];

    /// As exports and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Challenged => "challenged",
            Self::AuthenticatedForwarded => "authenticated_forwarded",
            Self::Forwarded => "forwarded",
            Self::Trying => "trying",
            Self::Answered => "answered",
            Self::ProvisionalRelayed => "provisional_relayed",
            Self::SuccessRelayed => "success_relayed",
            Self::FailureRelayed => "failure_relayed",
        }
    }

    /// From which message to which, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Challenged => "in > 401, 407 out",
            Self::AuthenticatedForwarded => "with credentials in > out",
            Self::Forwarded => "in > out",
            Self::Trying => "in > 100 out",
            Self::Answered => "in > own answer out",
            Self::ProvisionalRelayed => "1xx in > out",
            Self::SuccessRelayed => "2xx in > out",
            Self::FailureRelayed => "3xx-6xx in > out",
        }
    }
}

/// A method as a label: those of the RFCs, and `other` for the rest, so that nobody can make labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodName(usize);

impl MethodName {
    /// Of a method.
    pub const fn of(method: &Method<'_>) -> Self {
        Self(method.label_index())
    }

    /// As labels say it.
    pub fn name(self) -> &'static str {
        Method::LABELS.get(self.0).copied().unwrap_or("other")
    }
}

/// The response times of one step of one method.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    /// How many fell into each bucket; the last is for what lies beyond all bounds.
    pub buckets: Vec<u64>,
    /// Their sum, in nanoseconds.
    pub sum: u128,
    /// Their distribution, in nanoseconds, to three digits.
    pub distribution: Histogram<u64>,
    /// The longest, in nanoseconds.
    pub longest: u64,
}

impl ResponseTimes {
    fn new(buckets: usize) -> Self {
        Self {
            buckets: vec![0; buckets],
            sum: 0,
            distribution: Histogram::new_with_bounds(1, LONGEST, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are sound")),
            longest: 0,
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.distribution.len()
    }
}

/// All response times.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Upper bounds of the buckets, in nanoseconds.
    bounds: Vec<u64>,
    times: Vec<Option<Box<ResponseTimes>>>,
}

impl Figures {
    /// Nothing yet. `bounds`: of the buckets, in nanoseconds, growing.
    pub fn new(bounds: Vec<u64>) -> Self {
        Self {
            bounds,
            times: vec![None; Step::ALL.len() * Method::LABELS.len()],
        }
    }

    /// Upper bounds of the buckets, in nanoseconds.
    pub fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// Records a response time in nanoseconds.
    pub fn record(&mut self, step: Step, method: MethodName, time: u64) {
        let place = step as usize * Method::LABELS.len() + method.0;
        let Some(times) = self.times.get_mut(place) else {
            return;
        };
        let times =
            times.get_or_insert_with(|| Box::new(ResponseTimes::new(self.bounds.len() + 1)));
        // What is exactly at a bound lies below it (`le`).
        let bucket = self.bounds.partition_point(|bound| *bound < time);
        if let Some(count) = times.buckets.get_mut(bucket) {
            *count += 1;
        }
        times.sum += u128::from(time);
        times.longest = times.longest.max(time);
        times.distribution.saturating_record(time);
    }

    /// Those that occurred.
    pub fn times(&self) -> impl Iterator<Item = (Step, MethodName, &ResponseTimes)> {
        let places = Step::ALL.into_iter().flat_map(|step| {
            (0..Method::LABELS.len()).map(move |method| (step, MethodName(method)))
        });
        let found = places.zip(&self.times);
        found.filter_map(|((step, method), times)| Some((step, method, times.as_deref()?)))
    }

    /// Of one step of one method.
    pub fn of(&self, step: Step, method: &Method<'_>) -> Option<&ResponseTimes> {
        let place = step as usize * Method::LABELS.len() + MethodName::of(method).0;
        self.times.get(place)?.as_deref()
    }
}
