//! Dialogs: an early one exists only while the response context of its INVITE does. All have ended once the calls have ended and the
//! longest life of a dialog is over.
use crate::observe::{Census, Facts, Invariant, Observation, Violation, violation};
use sip_transport::Time;
use std::collections::BTreeMap;

/// The rule.
#[derive(Debug, Default)]
pub struct Dialogs {
    last: BTreeMap<(usize, usize), Census>,
}

impl Invariant for Dialogs {
    fn name(&self) -> &'static str {
        "dialogs"
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
                let (early, contexts) = (census.early_dialogs, census.contexts.live);
                if early > contexts {
                    let what = format!(
                        "{early} early dialogs of worker {worker} of host{host}, but {contexts} response contexts"
                    );
                    return Err(violation(self.name(), what, None));
                }
            }
            Observation::Crashed { host } => self.last.retain(|(other, _), _| *other != host),
            Observation::Quiet { .. } => return self.at_the_end(),
            _ => {}
        }
        Ok(())
    }
}

impl Dialogs {
    fn at_the_end(&self) -> Result<(), Violation> {
        for ((host, worker), census) in &self.last {
            let live = census.dialogs.live;
            if live > 0 {
                let what = format!("{live} dialogs of worker {worker} of host{host} never ended");
                return Err(violation(self.name(), what, None));
            }
        }
        Ok(())
    }
}
