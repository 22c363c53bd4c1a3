//! Problems of rows, for the log: each one once, with the number of its rows and the first of them.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The maximum number of different problems of a table. Further ones are counted together.
const MAX_PROBLEMS: usize = 100;

/// A problem of one or several rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<P> {
    /// What it is; `None` for all problems beyond the first hundred.
    pub problem: Option<P>,
    /// The number of rows that have it.
    pub rows: u64,
    /// The first of these rows.
    pub row: u32,
    /// What is in the first row.
    pub excerpt: Box<str>,
}

/// The problems of a table.
#[derive(Debug)]
pub(super) struct Findings<P> {
    by_problem: BTreeMap<P, Tally>,
    others: Option<Tally>,
}

/// Rows with one problem.
#[derive(Debug)]
struct Tally {
    rows: u64,
    row: u32,
    excerpt: Box<str>,
}

impl<P> Default for Findings<P> {
    fn default() -> Self {
        Self {
            by_problem: BTreeMap::new(),
            others: None,
        }
    }
}

impl<P: Ord> Findings<P> {
    pub(super) fn add(&mut self, problem: P, row: u32, excerpt: impl FnOnce() -> Box<str>) {
        let is_full = self.by_problem.len() == MAX_PROBLEMS;
        let first = || Tally {
            rows: 0,
            row,
            excerpt: excerpt(),
        };
        let tally = if is_full && !self.by_problem.contains_key(&problem) {
            self.others.get_or_insert_with(first)
        } else {
            self.by_problem.entry(problem).or_insert_with(first)
        };
        tally.rows += 1;
    }

    /// In the order of their first rows.
    pub(super) fn into_vec(self) -> Vec<Finding<P>> {
        let listed = self.by_problem.into_iter();
        let listed = listed.map(|(problem, tally)| tally.finding(Some(problem)));
        let mut all: Vec<Finding<P>> = listed.collect();
        all.sort_by_key(|finding| finding.row);
        all.extend(self.others.map(|tally| tally.finding(None)));
        all
    }
}

impl Tally {
    fn finding<P>(self, problem: Option<P>) -> Finding<P> {
        Finding {
            problem,
            rows: self.rows,
            row: self.row,
            excerpt: self.excerpt,
        }
    }
}

impl<P: Display> Display for Finding<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "row {} ({}): ", self.row, self.excerpt)?;
        match &self.problem {
            Some(problem) => write!(f, "{problem}")?,
            None => write!(f, "other problems, which are too many to be listed")?,
        }
        match self.rows {
            0 | 1 => Ok(()),
            rows => write!(f, " ({rows} such rows)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_its_first_row_and_the_number_of_rows() {
        let mut findings = Findings::default();
        for (problem, row) in [("bad", 3), ("odd", 2), ("bad", 4), ("bad", 5)] {
            findings.add(problem, row, || format!("set {row}").into());
        }
        let all = findings.into_vec();
        let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["row 2 (set 2): odd", "row 3 (set 3): bad (3 such rows)"]
        );
    }

    #[test]
    fn the_number_of_different_problems_is_bounded() {
        let mut findings = Findings::default();
        for row in 0..1_000 {
            findings.add(row, row, || "".into());
            findings.add(0, row, || "".into());
        }
        let all = findings.into_vec();
        assert_eq!(all.len(), MAX_PROBLEMS + 1);
        let rows = |finding: Option<&Finding<u32>>| finding.map(|it| (it.problem, it.rows));
        assert_eq!(rows(all.first()), Some((Some(0), 1_001)));
        assert_eq!(rows(all.last()), Some((None, 900)));
    }
}
