//! A worker accounts for exactly the message bytes that its tables hold. They stay within its bound, and are zero when the tables are
//! empty.
use crate::observe::{Facts, Invariant, Observation, Violation, violation};
use sip_transport::Time;

/// The bytes by which one request may exceed the bound, as received and as sent.
const LONGEST: u64 = 2 * 65_535;

/// The rule.
#[derive(Debug, Default)]
pub struct HeldBytes;

impl Invariant for HeldBytes {
    fn name(&self) -> &'static str {
        "held_bytes"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        let Observation::Ran {
            host,
            worker,
            census,
            ..
        } = *observation
        else {
            return Ok(());
        };
        let held = census.held;
        let bound = facts
            .hosts
            .get(host)
            .map_or(u64::MAX, |host| host.bounds.held_bytes);
        let transactions = census.servers.live + census.clients.live;
        let live = transactions + census.contexts.live + census.dialogs.live + census.parked;
        let complaint = if held.counted != held.believed {
            Some("is not what it believes")
        } else if held.counted > bound.saturating_add(LONGEST) {
            Some("is beyond its bound")
        } else if live == 0 && (held.counted > 0 || held.sources > 0) {
            Some("is held for nothing")
        } else {
            None
        };
        complaint.map_or(Ok(()), |what| {
            let what = format!("worker {worker} of host{host}: {held:?} {what} of {bound} bytes");
            Err(violation(self.name(), what, None))
        })
    }
}
