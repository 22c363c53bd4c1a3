//! What a table of Kamailio's module `dispatcher` says about gateways and groups.
//!
//! Each set becomes a group, `dispatcher-1` for the set 1. Each destination becomes one gateway, with one state, in however many sets it is.
//! Its name is its `duid`, else its destination. As in Kamailio, only the algorithm 8 follows priorities.

mod gateways;
mod members;
#[cfg(test)]
mod tests;

use super::algorithm::DispatcherAlgorithm;
use super::attributes::Attributes;
use super::destination::destination;
use super::dispatcher_problem::{DispatcherProblem, excerpt};
use super::findings::{Finding, Findings};
use crate::tables::DispatcherRow;
use gateways::GatewayList;
use members::{Member, Set};
use sip_routing::gateway::{Descriptions, FailoverRules, HealthRules, MAX_GROUPS};
use std::collections::BTreeMap;

const INACTIVE: i64 = 1;
const DISABLED: i64 = 4;
const PROBED: i64 = 8;
const NOT_PROBED: i64 = 32;
/// With 2, "trying", and 16, "do not resolve at the start". Both say nothing about Tandem.
const KNOWN_FLAGS: i64 = 63;

/// How the table is used: what Kamailio has in its script and in parameters of the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatcherOptions {
    /// The algorithm of sets that `algorithms` does not name.
    pub algorithm: DispatcherAlgorithm,
    /// Algorithms of sets.
    pub algorithms: BTreeMap<u32, DispatcherAlgorithm>,
    /// Which gateways are probed.
    pub probing: DispatcherProbing,
    /// The rules of all gateways, except whether they are probed.
    pub health: HealthRules,
    /// The rules of all gateways.
    pub failover: FailoverRules,
}

/// Which gateways are probed. A destination with the flag 32 never is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatcherProbing {
    /// All: `ds_probing_mode` 1.
    #[default]
    All,
    /// Those with the flag 8: `ds_probing_mode` 0, 2 and 3.
    Flagged,
    /// None: `ds_ping_interval` 0.
    Never,
}

/// Gateways and groups, and what could not be carried over.
#[derive(Debug, Default)]
pub struct TranslatedDispatcher {
    /// What [`Gateways::new`](sip_routing::gateway::Gateways::new) takes.
    pub descriptions: Descriptions,
    /// For the log.
    pub findings: Vec<Finding<DispatcherProblem>>,
}

/// Collects rows.
#[derive(Debug)]
pub struct DispatcherTranslation<'o> {
    options: &'o DispatcherOptions,
    gateways: GatewayList,
    sets: BTreeMap<u32, Set>,
    findings: Findings<DispatcherProblem>,
}

/// The name of the group of a set.
pub fn dispatcher_group(set: u32) -> String {
    format!("dispatcher-{set}")
}

impl<'o> DispatcherTranslation<'o> {
    /// Begins without rows.
    pub fn new(options: &'o DispatcherOptions) -> Self {
        Self {
            options,
            gateways: GatewayList::default(),
            sets: BTreeMap::new(),
            findings: Findings::default(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &DispatcherRow<'_>) {
        let mut problems = Vec::new();
        if let Err(problem) = self.add_member(row, &mut problems) {
            problems = vec![problem];
        }
        for problem in problems {
            let excerpt = || {
                let destination = excerpt(row.destination);
                format!("set {}, {destination}", row.set).into()
            };
            self.findings.add(problem, row.number, excerpt);
        }
    }

    /// The gateways and groups of all rows. [`Gateways::new`](sip_routing::gateway::Gateways::new) accepts them.
    pub fn finish(self) -> TranslatedDispatcher {
        let names = self.gateways.names();
        let mut findings = self.findings;
        let mut groups = Vec::new();
        for (id, set) in self.sets {
            let algorithm = self.options.algorithm_of(id);
            if let Some(problem) = set.problem(algorithm) {
                let excerpt = || format!("set {id}").into();
                findings.add(problem, set.first_row, excerpt);
            }
            groups.extend(set.group(id, algorithm, &names));
        }
        let gateways = self.gateways.describe(names, self.options);
        TranslatedDispatcher {
            descriptions: Descriptions { gateways, groups },
            findings: findings.into_vec(),
        }
    }

    /// Adds a row, or says why it is left out. `problems` gets what does not prevent its use.
    fn add_member(
        &mut self,
        row: &DispatcherRow<'_>,
        problems: &mut Vec<DispatcherProblem>,
    ) -> Result<(), DispatcherProblem> {
        let id = set_id(row)?;
        let algorithm = self.options.algorithm_of(id);
        self.begin_set(id, row.number)?;
        let attributes = Attributes::parse(row.attributes, |problem| problems.push(problem));
        let destination = destination(row.destination).ok_or(DispatcherProblem::NoSipUri)?;
        let is_probed = self.options.is_probed(row.flags, problems)?;
        let gateway = self.gateways.add(destination, attributes.id, problems)?;
        let member = Member {
            gateway,
            weight: algorithm.weight(&attributes),
            priority: row.priority,
        };
        if let Some(set) = self.sets.get_mut(&id) {
            set.join(member)?;
        }
        if member.weight.is_none() {
            problems.push(DispatcherProblem::NoWeight);
        }
        self.gateways.probe(gateway, is_probed);
        match attributes.max_calls {
            Some(most) if algorithm == DispatcherAlgorithm::CallLoad => {
                self.gateways.limit(gateway, most, problems);
            }
            Some(_) => problems.push(DispatcherProblem::UnusedMaximum),
            None => {}
        }
        Ok(())
    }

    fn begin_set(&mut self, id: u32, row: u32) -> Result<(), DispatcherProblem> {
        if self.sets.len() == MAX_GROUPS && !self.sets.contains_key(&id) {
            return Err(DispatcherProblem::TooManyGroups);
        }
        self.sets.entry(id).or_insert_with(|| Set::new(row));
        Ok(())
    }
}

impl DispatcherOptions {
    fn algorithm_of(&self, set: u32) -> DispatcherAlgorithm {
        self.algorithms.get(&set).copied().unwrap_or(self.algorithm)
    }

    /// Whether a destination with these flags is probed; an error if it gets no calls.
    fn is_probed(
        &self,
        flags: i64,
        problems: &mut Vec<DispatcherProblem>,
    ) -> Result<bool, DispatcherProblem> {
        if flags & DISABLED != 0 {
            return Err(DispatcherProblem::Disabled);
        }
        let is_probed = match self.probing {
            DispatcherProbing::All => flags & NOT_PROBED == 0,
            DispatcherProbing::Flagged => flags & (NOT_PROBED | PROBED) == PROBED,
            DispatcherProbing::Never => false,
        };
        match (flags & INACTIVE != 0, is_probed) {
            (true, false) => return Err(DispatcherProblem::Inactive),
            (true, true) => problems.push(DispatcherProblem::StartsInactive),
            (false, _) => {}
        }
        match flags & !KNOWN_FLAGS {
            0 => {}
            flags => problems.push(DispatcherProblem::UnknownFlags { flags }),
        }
        Ok(is_probed)
    }
}

fn set_id(row: &DispatcherRow<'_>) -> Result<u32, DispatcherProblem> {
    let id = i32::try_from(row.set).ok();
    let id = id.and_then(|id| u32::try_from(id).ok());
    id.ok_or(DispatcherProblem::NoSet)
}
