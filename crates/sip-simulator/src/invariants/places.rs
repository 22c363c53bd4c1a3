//! As many places are taken as calls are live: a call that ends gives its place back, whatever ends it, and a restored one takes it again.
use crate::observe::{Facts, Invariant, Observation, Violation, violation};
use sip_transport::Time;
use std::collections::BTreeMap;

/// The rule.
#[derive(Debug, Default)]
pub struct PlacesOfCalls {
    /// The live calls by machine and worker.
    calls: BTreeMap<(usize, usize), u64>,
}

impl Invariant for PlacesOfCalls {
    fn name(&self) -> &'static str {
        "places"
    }

    fn observe(
        &mut self,
        _: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Crashed { host } => self.calls.retain(|(other, _), _| *other != host),
            Observation::Booted {
                host, ref calls, ..
            } => {
                for (worker, calls) in calls.iter().enumerate() {
                    self.calls.insert((host, worker), *calls);
                }
            }
            Observation::Ran {
                host,
                worker,
                census,
                ..
            } => {
                self.calls.insert((host, worker), census.places.calls);
                let of_host = self.calls.range((host, 0)..=(host, usize::MAX));
                let calls: u64 = of_host.map(|(_, calls)| calls).sum();
                let taken = census.places.taken;
                if calls != taken {
                    let what =
                        format!("host{host} has {calls} live calls and {taken} places taken");
                    return Err(violation(self.name(), what, None));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
