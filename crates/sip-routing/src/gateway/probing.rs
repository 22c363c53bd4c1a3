//! When each gateway is to be probed.

use super::algorithm::{mix, name_hash};
use super::gateways::Gateways;
use super::server::Gateway;
use super::statistics::count;
use sip_transport::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Gateways {
    /// Calls `send` with each gateway whose probe is due, and returns when the next one is due; `None` if no gateway is probed.
    ///
    /// The first probes are spread over the interval by the names of the gateways, and each gateway keeps its moment, also over reloads. A
    /// probe that is late is sent once, however many intervals have passed. Report each outcome with [`Gateway::probed`] within
    /// [`HealthRules::timeout`](super::HealthRules::timeout).
    ///
    /// One thread calls this. It looks at all gateways each time, so it need not be called more often than every 10 ms or so.
    pub fn due_probes(&self, now: Time, mut send: impl FnMut(&Arc<Gateway>)) -> Option<Time> {
        let probed = self.gateways().iter().filter(|it| it.is_probed());
        let next = probed.map(|gateway| {
            let (is_due, next) = gateway.plan(now);
            if is_due {
                count(&gateway.state.calls.counters.probes_sent);
                send(gateway);
            }
            next
        });
        next.min()
    }
}

impl Gateway {
    fn is_probed(&self) -> bool {
        self.description.health.probe && !self.is_disabled()
    }

    /// When the next probe is due; `None` if the gateway is not probed or the probe is not planned yet.
    pub fn next_probe(&self) -> Option<Time> {
        let next = self.health.next_probe.load(Relaxed);
        (self.is_probed() && next != 0).then(|| Time::from_micros(next))
    }

    /// Whether a probe is due, and when the next one is.
    fn plan(&self, now: Time) -> (bool, Time) {
        let interval = self.description.health.interval;
        let planned = Time::from_micros(self.health.next_probe.load(Relaxed));
        // Not planned yet, or planned with a longer interval.
        let is_new = planned == Time::default() || planned > now + interval;
        let next = if is_new {
            now + self.moment(interval)
        } else if planned <= now {
            after(planned, interval, now)
        } else {
            return (false, planned);
        };
        self.health.next_probe.store(next.as_micros(), Relaxed);
        (!is_new, next)
    }

    /// Where in the interval the gateway has its probes: from 1 µs to the whole interval.
    fn moment(&self, interval: Duration) -> Duration {
        let micros = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(mix(name_hash(self.name())) % micros.max(1) + 1)
    }
}

/// The first time after `now` that is a whole number of intervals after `planned`.
fn after(planned: Time, interval: Duration, now: Time) -> Time {
    let late = (now - planned).as_micros() % interval.as_micros().max(1);
    let late = Duration::from_micros(u64::try_from(late).unwrap_or(0));
    now + interval.saturating_sub(late)
}
