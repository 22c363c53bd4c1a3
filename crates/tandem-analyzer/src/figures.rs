//! Response times: exact counts per bucket, and distributions.

use hdrhistogram::Histogram;
use sip_message::Method;

/// Upper bound of the distributions, in nanoseconds: two minutes.
const LONGEST: u64 = 120_000_000_000;

/// A pair of messages of a transaction between which the server's time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// From a request to 401 or 407.
    Challenged,
    /// From a request with credentials to the forwarded request.
    AuthenticatedForwarded,
    /// From a request without credentials to the forwarded request.
    Forwarded,
    /// From a request to 100.
    Trying,
    /// From a request to another response that the server generates.
    Answered,
    /// From a provisional response to the relayed response.
    ProvisionalRelayed,
    /// From a 2xx to the relayed response.
    SuccessRelayed,
    /// From another final response to the relayed response.
    FailureRelayed,
}

impl Step {
    /// All steps, in the order of reports.
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

    /// The name in exports and metrics.
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

    /// A description for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Challenged => "in > 401, 407 out",
            Self::AuthenticatedForwarded => "with credentials in > out",
            Self::Forwarded => "in > out",
            Self::Trying => "in > 100 out",
            Self::Answered => "in > own response out",
            Self::ProvisionalRelayed => "1xx in > out",
            Self::SuccessRelayed => "2xx in > out",
            Self::FailureRelayed => "3xx-6xx in > out",
        }
    }
}

/// A method as a label: the methods of the RFCs, and `other` for the rest, so that no peer can create labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodName(usize);

impl MethodName {
    /// The label of a method.
    pub const fn of(method: &Method<'_>) -> Self {
        Self(method.label_index())
    }

    /// The text of the label.
    pub fn name(self) -> &'static str {
        Method::LABELS.get(self.0).copied().unwrap_or("other")
    }
}

/// The response times of one step of one method.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    /// Counts per bucket; the last bucket has no upper bound.
    pub buckets: Vec<u64>,
    /// Sum in nanoseconds.
    pub sum: u128,
    /// Distribution in nanoseconds, to three digits.
    pub distribution: Histogram<u64>,
    /// Maximum in nanoseconds.
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

    /// Number of response times.
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
    /// No response times. `bounds`: upper bounds of the buckets in nanoseconds, ascending.
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
        // A value equal to a bound lies below it (`le`).
        let bucket = self.bounds.partition_point(|bound| *bound < time);
        if let Some(count) = times.buckets.get_mut(bucket) {
            *count += 1;
        }
        times.sum += u128::from(time);
        times.longest = times.longest.max(time);
        times.distribution.saturating_record(time);
    }

    /// All steps and methods with response times.
    pub fn times(&self) -> impl Iterator<Item = (Step, MethodName, &ResponseTimes)> {
        let places = Step::ALL.into_iter().flat_map(|step| {
            (0..Method::LABELS.len()).map(move |method| (step, MethodName(method)))
        });
        let found = places.zip(&self.times);
        found.filter_map(|((step, method), times)| Some((step, method, times.as_deref()?)))
    }

    /// The response times of one step of one method.
    pub fn of(&self, step: Step, method: &Method<'_>) -> Option<&ResponseTimes> {
        let place = step as usize * Method::LABELS.len() + MethodName::of(method).0;
        self.times.get(place)?.as_deref()
    }
}
