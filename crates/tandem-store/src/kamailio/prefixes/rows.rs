//! Rows of prefixes in little memory: they wait until all gateways that they name are known.

use sip_routing::prefix::Builder;

/// Few distinct tables and lists of groups, to which many rows refer.
#[derive(Debug, Default)]
pub(super) struct Rows {
    tables: Vec<String>,
    groups: Vec<String>,
    all: Vec<Row>,
    /// The prefixes of all rows.
    prefixes: String,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    number: u32,
    table: u32,
    groups: u32,
    /// The length of its prefix.
    length: u32,
}

impl Rows {
    /// Adds a table. Returns its index.
    pub(super) fn add_table(&mut self, name: String) -> u32 {
        self.tables.push(name);
        self.tables.len() as u32 - 1
    }

    /// Adds a list of groups. Returns its index.
    pub(super) fn add_groups(&mut self, groups: String) -> u32 {
        self.groups.push(groups);
        self.groups.len() as u32 - 1
    }

    pub(super) fn push(&mut self, number: u32, table: u32, prefix: &str, groups: u32) {
        self.prefixes.push_str(prefix);
        self.all.push(Row {
            number,
            table,
            groups,
            length: prefix.len() as u32,
        });
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn fill(&self, builder: &mut Builder) {
        let mut rest = &*self.prefixes;
        for row in &self.all {
            let split = rest.split_at_checked(row.length as usize);
            let (prefix, after) = split.unwrap_or_default();
            rest = after;
            let table = self.tables.get(row.table as usize).map_or("", |it| it);
            let groups = self.groups.get(row.groups as usize).map_or("", |it| it);
            builder.row(row.number, table, prefix, groups);
        }
    }
}
