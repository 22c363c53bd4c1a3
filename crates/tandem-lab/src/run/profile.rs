//! The traffic of a run: kinds of units, their rates, and the shape of calls.

use super::arrivals::Rate;
use super::figures::{Delay, Kind};
use std::time::Duration;

/// Units of one kind at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// Kind of the units.
    pub kind: Kind,
    /// Rate of the units.
    pub rate: Rate,
}

/// Ringing and talking times of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallShape {
    /// From 180 to 200.
    pub ringing: Duration,
    /// From ACK to BYE.
    pub talking: Duration,
}

/// A mixture of traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Kinds of units and their rates.
    pub activities: Vec<Activity>,
    /// Shape of the calls.
    pub call: CallShape,
}

impl Profile {
    /// Units of one kind only.
    pub fn only(kind: Kind, rate: Rate, call: CallShape) -> Self {
        Self {
            activities: vec![Activity { kind, rate }],
            call,
        }
    }

    /// The traffic of a provider. Each subscriber sends a keep-alive every 15 seconds and refreshes its registration every 3,000 seconds.
    /// Five thousand subscribers make one call per second, which rings for four seconds.
    pub fn provider(subscribers: u32) -> Self {
        let each = |kind, every: f64| Activity {
            kind,
            rate: Rate::Constant(f64::from(subscribers) / every),
        };
        Self {
            activities: vec![
                each(Kind::KeepAlive, 15.0),
                each(Kind::Register, 3_000.0),
                each(Kind::Call, 5_000.0),
            ],
            call: CallShape {
                ringing: Duration::from_secs(4),
                talking: Duration::ZERO,
            },
        }
    }

    /// The traffic of a session border controller: calls at a rate, so long that `concurrent` are in progress.
    pub fn border(rate: f64, concurrent: u32) -> Self {
        let talking = Duration::from_secs_f64(f64::from(concurrent) / rate.max(1e-3));
        let call = CallShape {
            ringing: Duration::ZERO,
            talking,
        };
        Self::only(Kind::Call, Rate::Constant(rate), call)
    }

    /// All phones register again within this time, as after an outage.
    pub fn storm(phones: u32, within: Duration) -> Self {
        let rate = f64::from(phones) / within.as_secs_f64().max(1e-3);
        Self::only(Kind::Register, Rate::Constant(rate), CallShape::default())
    }

    /// Initial units per second of the last kind.
    pub fn rate(&self) -> f64 {
        self.activities
            .last()
            .map_or(0.0, |activity| activity.rate.at(0.0))
    }

    /// Keeps only the last kind, at this rate.
    pub(crate) fn only_last_at(&mut self, rate: Rate) {
        let last = self.activities.pop();
        self.activities = last
            .into_iter()
            .map(|last| Activity { rate, ..last })
            .collect();
    }

    /// Units of all kinds per unit of the last kind.
    pub(crate) fn mixture(&self) -> f64 {
        let all = self.activities.iter();
        all.map(|activity| activity.rate.at(0.0)).sum::<f64>() / self.rate().max(1e-9)
    }

    /// Sets a constant rate for the last kind, and scales the other kinds accordingly.
    pub fn set_rate(&mut self, rate: f64) {
        let factor = rate / self.rate();
        for activity in &mut self.activities {
            activity.rate = Rate::Constant(activity.rate.at(0.0) * factor);
        }
    }

    /// The delay that the last kind is about.
    pub fn main_delay(&self) -> Delay {
        match self.activities.last().map(|activity| activity.kind) {
            // Including the challenge, because the caller waits for it.
            Some(Kind::Call) => Delay::Response,
            Some(Kind::Register) | None => Delay::Registration,
            Some(Kind::Connection) => Delay::Connection,
            Some(Kind::Options | Kind::KeepAlive | Kind::Attack | Kind::Echo) => Delay::Other,
        }
    }

    /// Whether phones must be registered first.
    pub fn needs_registrations(&self) -> bool {
        self.activities
            .iter()
            .any(|activity| activity.kind == Kind::Call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_subscribers_make_the_traffic_of_the_model() {
        let profile = Profile::provider(1_000_000);
        let rates: Vec<f64> = profile
            .activities
            .iter()
            .map(|activity| activity.rate.at(0.0).round())
            .collect();
        assert_eq!(rates, [66_667.0, 333.0, 200.0]);
    }

    #[test]
    fn calls_of_a_border_element_last_as_long_as_their_number_asks() {
        let profile = Profile::border(1_000.0, 60_000);
        assert_eq!(profile.call.talking, Duration::from_secs(60));
    }
}
