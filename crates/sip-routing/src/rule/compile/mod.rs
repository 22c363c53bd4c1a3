//! From descriptions to compiled rules. All mistakes are collected, so that the operator sees them at once.

mod conditions;
mod decision;
mod edits;

pub(super) use conditions::show_listener;

use super::action::Action;
use super::conditions::Conditions;
use super::description::{KnownNames, RuleDescription};
use super::mistake::{Problem, RuleMistake};
use super::set::MAX_RULES;
use std::collections::HashSet;

/// The maximum number of entries of a list of conditions.
const MAX_ENTRIES: usize = 10_000;

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) name: Box<str>,
    pub(super) conditions: Conditions,
    pub(super) action: Action,
}

/// Compiles rules, or says what is wrong with them.
pub(super) fn compile(
    descriptions: &[RuleDescription],
    known: &KnownNames<'_>,
) -> Result<Vec<Compiled>, Vec<RuleMistake>> {
    let mut mistakes = Vec::new();
    let mut compiled = Vec::new();
    let mut names = HashSet::new();
    for (index, description) in descriptions.iter().take(MAX_RULES).enumerate() {
        let mut compiler = Compiler {
            description,
            known,
            problems: Vec::new(),
        };
        if description.name.is_empty() {
            compiler.problem(Problem::NoName);
        } else if !names.insert(&description.name) {
            compiler.problem(Problem::DuplicateName);
        }
        let conditions = compiler.conditions();
        let action = compiler.action();
        // A rule with a mistake in its conditions says nothing about the rules behind it.
        let problems = std::mem::take(&mut compiler.problems);
        if let Some(action) = action
            && problems.is_empty()
        {
            compiled.push(Compiled {
                name: description.name.as_str().into(),
                conditions,
                action,
            });
        }
        let rule = called(description, index);
        mistakes.extend(problems.into_iter().map(|problem| RuleMistake {
            rule: rule.clone(),
            problem,
        }));
    }
    mistakes.extend(descriptions.get(MAX_RULES).map(|description| RuleMistake {
        rule: called(description, MAX_RULES),
        problem: Problem::TooManyRules,
    }));
    mistakes.extend(unreachable(&compiled));
    if mistakes.is_empty() {
        Ok(compiled)
    } else {
        Err(mistakes)
    }
}

fn called(description: &RuleDescription, index: usize) -> String {
    if description.name.is_empty() {
        format!("#{}", index + 1)
    } else {
        description.name.clone()
    }
}

/// The rules that never match because of an earlier one.
fn unreachable(rules: &[Compiled]) -> impl Iterator<Item = RuleMistake> {
    rules.iter().enumerate().filter_map(|(index, rule)| {
        let mut earlier = rules.iter().take(index);
        let by = earlier.find(|earlier| earlier.conditions.cover(&rule.conditions))?;
        let name = by.name.to_string();
        Some(RuleMistake {
            rule: rule.name.to_string(),
            problem: if by.conditions.are_none() {
                Problem::BehindCatchAll(name)
            } else {
                Problem::Covered(name)
            },
        })
    })
}

/// Compiles one rule. What is missing because of a mistake is left out.
struct Compiler<'a> {
    description: &'a RuleDescription,
    known: &'a KnownNames<'a>,
    problems: Vec<Problem>,
}

impl Compiler<'_> {
    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The value of a result, or a problem.
    fn checked<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problem(problem)).ok()
    }

    /// Checks the length of a list of conditions.
    fn list<'l, T>(&mut self, key: &'static str, list: Option<&'l [T]>) -> Option<&'l [T]> {
        let list = list?;
        match list.len() {
            0 => self.problem(Problem::EmptyList { key }),
            count if count > MAX_ENTRIES => self.problem(Problem::TooManyEntries {
                key,
                count,
                most: MAX_ENTRIES,
            }),
            _ => {}
        }
        Some(list.get(..MAX_ENTRIES).unwrap_or(list))
    }
}

/// Whether a text fits into a line of a message.
fn is_line(text: &str, most: usize) -> bool {
    !text.trim().is_empty()
        && text.len() <= most
        && text
            .chars()
            .all(|character| character == '\t' || !character.is_control())
}
