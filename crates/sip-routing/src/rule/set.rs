//! The rules of a server.

use super::action::{Action, Authentication, Decision, Reference};
use super::compile::{compile, show_listener};
use super::condition::Condition;
use super::conditions::Conditions;
use super::description::{KnownNames, RuleDescription};
use super::explain::{self, Outcome, Step};
use super::facts::{Facts, Values};
use super::header_edits::HeaderEdits;
use super::index::Index;
use super::mistake::RuleMistake;
use super::number_edit::NumberEdit;
use crate::limit::EXEMPT;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of rules.
pub const MAX_RULES: usize = 2_048;

/// Compiled rules. They never change: a reload makes a new set, which takes over the counters.
#[derive(Debug)]
pub struct RuleSet {
    rules: Box<[Rule]>,
    index: Index,
    /// The listeners as operators write them.
    listeners: Box<[Box<str>]>,
    /// A rule forwards without a transaction.
    forward_statelessly: bool,
}

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    number: usize,
    name: Box<str>,
    conditions: Conditions,
    /// The conditions that the index does not decide.
    undecided: Box<[Condition]>,
    action: Action,
    matches: Arc<Matches>,
}

/// How often a rule has matched. All workers count; a cache line of its own keeps them from slowing down other rules.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Matches(AtomicU64);

impl Default for RuleSet {
    /// The set without rules.
    fn default() -> Self {
        Self {
            rules: Box::default(),
            index: Index::new(&[]),
            listeners: Box::default(),
            forward_statelessly: false,
        }
    }
}

impl RuleSet {
    /// Compiles rules in the order in which they are tested. Counters of rules that `previous` has by the same name go on. Reports all
    /// mistakes at once.
    pub fn new(
        descriptions: &[RuleDescription],
        known: &KnownNames<'_>,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<RuleMistake>> {
        let compiled = compile(descriptions, known)?;
        let previous: HashMap<&str, &Arc<Matches>> = previous
            .map(|set| set.rules.iter())
            .into_iter()
            .flatten()
            .map(|rule| (&*rule.name, &rule.matches))
            .collect();
        let conditions: Vec<&Conditions> = compiled.iter().map(|rule| &rule.conditions).collect();
        let index = Index::new(&conditions);
        let mut decisions = compiled.iter().map(|rule| &rule.action.decision);
        let forward_statelessly = decisions.any(Decision::is_stateless);
        let rules = compiled.into_iter().zip(0..).map(|(rule, number)| Rule {
            number,
            matches: previous
                .get(&*rule.name)
                .copied()
                .cloned()
                .unwrap_or_default(),
            name: rule.name,
            undecided: rule.conditions.undecided().into(),
            conditions: rule.conditions,
            action: rule.action,
        });
        Ok(Self {
            rules: rules.collect(),
            index,
            listeners: known
                .listeners
                .iter()
                .map(|it| show_listener(it).into())
                .collect(),
            forward_statelessly,
        })
    }

    /// The first rule that matches, and counts the match. It allocates nothing and takes no lock.
    pub fn first(&self, facts: &Facts<'_, '_>) -> Option<&Rule> {
        let rule = self.find(facts)?;
        rule.matches.0.fetch_add(1, Ordering::Relaxed);
        Some(rule)
    }

    /// The first rule that matches. It counts nothing: use it for a request that [`RuleSet::first`] has seen.
    pub fn find(&self, facts: &Facts<'_, '_>) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let values = Values::new(*facts);
        let rules = self.index.candidates(&values);
        let mut rules = rules.map_while(|rule| self.rules.get(rule));
        rules.find(|rule| {
            let mut undecided = rule.undecided.iter();
            undecided.all(|condition| rule.conditions.holds(*condition, &values))
        })
    }

    /// The rule with this [number](Rule::number).
    pub fn get(&self, number: usize) -> Option<&Rule> {
        self.rules.get(number)
    }

    /// Why each rule does not match, up to the first that does. It counts nothing.
    pub fn explain(&self, facts: &Facts<'_, '_>) -> Vec<Step> {
        let values = Values::new(*facts);
        let mut steps = Vec::new();
        for rule in &self.rules {
            let failed = rule.conditions.first_failed(&values);
            let outcome = failed.map_or(Outcome::Matched, |condition| Outcome::Failed {
                condition,
                value: explain::value(condition, &rule.conditions, &values, &self.listeners),
            });
            steps.push(Step {
                rule: rule.name.clone(),
                outcome,
            });
            if failed.is_none() {
                break;
            }
        }
        steps
    }

    /// All rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Whether a rule forwards requests without a transaction.
    pub const fn forward_statelessly(&self) -> bool {
        self.forward_statelessly
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    /// The unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in its set, from 0.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// How often [`RuleSet::first`] has returned this rule, or one with its name in the sets before.
    pub fn matches(&self) -> u64 {
        self.matches.0.load(Ordering::Relaxed)
    }

    /// What happens to a request.
    pub const fn decision(&self) -> &Decision {
        &self.action.decision
    }

    /// How its sender is authenticated; `None`: as without rules.
    pub const fn authentication(&self) -> Option<Authentication> {
        self.action.authentication
    }

    /// The limit that it counts for, or [`EXEMPT`].
    pub const fn limit(&self) -> Option<&Reference> {
        self.action.limit.as_ref()
    }

    /// Whether its calls pass all limits and count for none.
    pub fn is_exempt(&self) -> bool {
        self.limit().is_some_and(|limit| &*limit.name == EXEMPT)
    }

    /// The changes to header fields of the forwarded request.
    pub const fn header_edits(&self) -> &HeaderEdits {
        &self.action.header_edits
    }

    /// The change to the called number.
    pub const fn number_edit(&self) -> Option<&NumberEdit> {
        self.action.number_edit.as_ref()
    }
}
