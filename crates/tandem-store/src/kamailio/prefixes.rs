//! What tables of Kamailio's modules `mtree` and `pdt` say about prefixes.
//!
//! The value of a prefix has no meaning in Kamailio: its script gives it one. So the configuration says what it is ([`PrefixValues`]).

mod rows;

use super::destination::{destination, identity, is_name, name};
use super::dispatcher::dispatcher_group;
use super::dispatcher_problem::excerpt;
use super::findings::{Finding, Findings};
use super::prefix_problem::PrefixProblem;
use crate::tables::PrefixRow;
use rows::Rows;
use sip_routing::gateway::{
    Descriptions, FailoverRules, GatewayDescription, GroupDescription, HealthRules, MAX_GATEWAYS,
    MAX_GROUPS,
};
use sip_routing::prefix::Builder;
use std::collections::{HashMap, HashSet};

/// The maximum number of different values, and of trees or domains.
pub(super) const MAX_VALUES: usize = 65_536;
/// The maximum length of the name of a table of prefixes.
const MAX_TABLE_NAME: usize = 64;

/// What the value of a prefix is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixValues {
    /// Names of gateway groups, separated by semicolons.
    #[default]
    Groups,
    /// Sets of `dispatcher`, separated by semicolons or commas.
    Sets,
    /// A domain, an address or a SIP URI, as in `pdt`. It becomes a gateway, and a group with the name of the destination.
    Destinations,
}

/// How tables are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KamailioPrefixOptions {
    /// What the values are.
    pub values: PrefixValues,
    /// The rules of gateways that are made of values.
    pub health: HealthRules,
    /// The rules of gateways that are made of values.
    pub failover: FailoverRules,
}

/// Rows of prefixes, and the gateways that they need.
#[derive(Debug)]
pub struct TranslatedPrefixes {
    /// Those that there were before, and those of the values.
    pub descriptions: Descriptions,
    /// For the log.
    pub findings: Vec<Finding<PrefixProblem>>,
    rows: Rows,
}

/// Collects rows.
#[derive(Debug)]
pub struct PrefixTranslation<'o> {
    options: &'o KamailioPrefixOptions,
    gateways: Destinations,
    rows: Rows,
    /// The index of the groups of each value.
    by_value: HashMap<Box<str>, Result<u32, PrefixProblem>>,
    /// The index of the table of each tree or domain.
    by_callers: HashMap<Box<str>, Result<u32, PrefixProblem>>,
    findings: Findings<PrefixProblem>,
}

/// Gateways and groups, to which values add more.
#[derive(Debug)]
struct Destinations {
    descriptions: Descriptions,
    /// Names of gateways.
    by_identity: HashMap<String, Box<str>>,
    /// Names of groups that were made of values.
    made: HashSet<String>,
}

impl<'o> PrefixTranslation<'o> {
    /// Begins without rows. `descriptions` are the gateways and groups that there are without them.
    pub fn new(options: &'o KamailioPrefixOptions, descriptions: Descriptions) -> Self {
        Self {
            options,
            gateways: Destinations::new(descriptions),
            rows: Rows::default(),
            by_value: HashMap::new(),
            by_callers: HashMap::new(),
            findings: Findings::default(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &PrefixRow<'_>) {
        if let Err(problem) = self.add_row(row) {
            let excerpt = || {
                let values = [row.callers, row.prefix, row.groups].map(excerpt);
                values.join(", ").into()
            };
            self.findings.add(problem, row.number, excerpt);
        }
    }

    /// All rows.
    pub fn finish(self) -> TranslatedPrefixes {
        TranslatedPrefixes {
            descriptions: self.gateways.descriptions,
            findings: self.findings.into_vec(),
            rows: self.rows,
        }
    }

    fn add_row(&mut self, row: &PrefixRow<'_>) -> Result<(), PrefixProblem> {
        let (prefix, value) = (row.prefix.trim(), row.groups.trim());
        if prefix.is_empty() {
            return Err(PrefixProblem::NoPrefix);
        }
        if value.is_empty() {
            return Err(PrefixProblem::NoValue);
        }
        let table = self.table(row.callers.trim())?;
        let groups = self.groups(value)?;
        self.rows.push(row.number, table, prefix, groups);
        Ok(())
    }

    fn table(&mut self, callers: &str) -> Result<u32, PrefixProblem> {
        if let Some(known) = self.by_callers.get(callers) {
            return known.clone();
        }
        if self.by_callers.len() == MAX_VALUES {
            return Err(PrefixProblem::TooManyTables);
        }
        let table = table_name(callers).map(|name| self.rows.add_table(name));
        self.by_callers.insert(callers.into(), table.clone());
        table
    }

    fn groups(&mut self, value: &str) -> Result<u32, PrefixProblem> {
        if let Some(known) = self.by_value.get(value) {
            return known.clone();
        }
        if self.by_value.len() == MAX_VALUES {
            return Err(PrefixProblem::TooManyValues);
        }
        let groups = match self.options.values {
            PrefixValues::Groups => Ok(value.to_owned()),
            PrefixValues::Sets => groups_of_sets(value),
            PrefixValues::Destinations => self.gateways.group(value, self.options),
        };
        let groups = groups.map(|groups| self.rows.add_groups(groups));
        self.by_value.insert(value.into(), groups.clone());
        groups
    }
}

impl Destinations {
    fn new(descriptions: Descriptions) -> Self {
        let gateways = descriptions.gateways.iter();
        let named = gateways.map(|it| (identity(&it.destination), it.name.clone()));
        Self {
            by_identity: named.collect(),
            descriptions,
            made: HashSet::new(),
        }
    }

    /// The group of a destination. It is made if there is none.
    fn group(
        &mut self,
        value: &str,
        options: &KamailioPrefixOptions,
    ) -> Result<String, PrefixProblem> {
        let destination = destination(value).ok_or(PrefixProblem::NoSipUri)?;
        let own = name(&destination);
        if !is_name(&own) {
            return Err(PrefixProblem::NoSipUri);
        }
        if self.made.contains(&own) {
            return Ok(own);
        }
        let Descriptions { gateways, groups } = &mut self.descriptions;
        if gateways.len() >= MAX_GATEWAYS || groups.len() >= MAX_GROUPS {
            return Err(PrefixProblem::TooManyGateways);
        }
        let gateway = self.by_identity.entry(identity(&destination));
        let gateway = gateway.or_insert_with(|| {
            gateways.push(GatewayDescription {
                health: options.health.clone(),
                failover: options.failover.clone(),
                ..GatewayDescription::new(&own, destination)
            });
            own.clone().into()
        });
        groups.push(GroupDescription::new(&own).member(gateway));
        self.made.insert(own.clone());
        Ok(own)
    }
}

impl TranslatedPrefixes {
    /// Adds the rows to a table. The groups of `descriptions` must be among those of the builder.
    pub fn fill(&self, builder: &mut Builder) {
        self.rows.fill(builder);
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }
}

/// The table of prefixes of a tree (`tname`) or a domain (`sdomain`). The dots of a domain become underscores, which no domain has. `*` is
/// for all callers.
fn table_name(callers: &str) -> Result<String, PrefixProblem> {
    if matches!(callers, "" | "*") {
        return Ok(String::new());
    }
    let name = callers.replace('.', "_");
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.len() <= MAX_TABLE_NAME && name.bytes().all(is_allowed) {
        return Ok(name);
    }
    Err(PrefixProblem::NoTableName)
}

fn groups_of_sets(value: &str) -> Result<String, PrefixProblem> {
    if value.contains(':') {
        return Err(PrefixProblem::Weighted);
    }
    let groups = value.split([';', ',']).map(|set| {
        let id: Option<i32> = set.trim().parse().ok();
        let id = id.and_then(|id| u32::try_from(id).ok());
        id.map(dispatcher_group).ok_or(PrefixProblem::NoSet)
    });
    let groups: Vec<String> = groups.collect::<Result<_, _>>()?;
    Ok(groups.join(";"))
}
