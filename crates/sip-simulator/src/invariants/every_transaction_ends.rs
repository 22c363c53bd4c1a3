//! Every transaction ends: after the traffic has stopped and all timers have run out, all tables are empty.
use crate::observe::{Census, Facts, Invariant, Observation, Violation, violation};
use sip_transport::Time;
use std::collections::BTreeMap;

/// The rule.
#[derive(Debug, Default)]
pub struct EveryTransactionEnds {
    last: BTreeMap<(usize, usize), Census>,
}

impl Invariant for EveryTransactionEnds {
    fn name(&self) -> &'static str {
        "every_transaction_ends"
    }

    fn observe(
        &mut self,
        _: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        match *observation {
            Observation::Ran {
                host,
                worker,
                census,
                ..
            } => {
                self.last.insert((host, worker), census);
            }
            Observation::Crashed { host } => self.last.retain(|(other, _), _| *other != host),
            Observation::Quiet { .. } => return self.at_the_end(),
            _ => {}
        }
        Ok(())
    }
}

impl EveryTransactionEnds {
    fn at_the_end(&self) -> Result<(), Violation> {
        for ((host, worker), census) in &self.last {
            let tables = [
                ("server transactions", census.servers.live),
                ("client transactions", census.clients.live),
                ("response contexts", census.contexts.live),
                ("parked requests", census.parked),
            ];
            if let Some((table, left)) = tables.into_iter().find(|(_, left)| *left > 0) {
                let what = format!("{left} {table} of worker {worker} of host{host} never ended");
                return Err(violation(self.name(), what, None));
            }
        }
        Ok(())
    }
}
