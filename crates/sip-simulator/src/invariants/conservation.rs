//! Conservation: created = ended + live for every table after every step, and no counter decreases.
use crate::observe::{Account, Facts, Invariant, Observation, Violation, violation};
use sip_transport::Time;
use std::collections::BTreeMap;

/// The rule.
#[derive(Debug, Default)]
pub struct Conservation {
    /// By machine, worker (`None` for the whole machine) and table.
    last: BTreeMap<(usize, Option<usize>, &'static str), Account>,
}

impl Invariant for Conservation {
    fn name(&self) -> &'static str {
        "conservation"
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
                self.check(host, Some(worker), "server transactions", census.servers)?;
                self.check(host, Some(worker), "client transactions", census.clients)?;
                self.check(host, Some(worker), "response contexts", census.contexts)?;
                self.check(host, Some(worker), "dialogs", census.dialogs)
            }
            Observation::Bindings { host, account } => self.check(host, None, "bindings", account),
            Observation::Crashed { host } => {
                self.last.retain(|(other, _, _), _| *other != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Conservation {
    fn check(
        &mut self,
        host: usize,
        worker: Option<usize>,
        table: &'static str,
        account: Account,
    ) -> Result<(), Violation> {
        let Account {
            created,
            ended,
            live,
        } = account;
        if ended.checked_add(live) != Some(created) {
            let what = format!(
                "{table} of host{host}, worker {worker:?}: created {created} ≠ ended {ended} + live {live}"
            );
            return Err(violation(self.name(), what, None));
        }
        let before = self
            .last
            .insert((host, worker, table), account)
            .unwrap_or_default();
        if created < before.created || ended < before.ended {
            let what = format!(
                "{table} of host{host}, worker {worker:?}: counts stepped back, {before:?} to {account:?}"
            );
            return Err(violation(self.name(), what, None));
        }
        Ok(())
    }
}
