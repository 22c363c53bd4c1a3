//! The destinations of a set, as members of a group.

use super::{DispatcherAlgorithm, dispatcher_group};
use crate::kamailio::dispatcher_problem::DispatcherProblem;
use sip_routing::gateway::{GroupDescription, MAX_MEMBERS, MemberDescription};
use std::cmp::Reverse;

/// A set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) first_row: u32,
    /// In the order of the rows.
    members: Vec<Member>,
}

/// A destination of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its index among all gateways.
    pub(super) gateway: usize,
    /// `None`: the algorithm needs a weight, and there is none.
    pub(super) weight: Option<u16>,
    /// Higher numbers first.
    pub(super) priority: i64,
}

impl Set {
    pub(super) const fn new(first_row: u32) -> Self {
        Self {
            first_row,
            members: Vec::new(),
        }
    }

    pub(super) fn join(&mut self, member: Member) -> Result<(), DispatcherProblem> {
        if self.members.iter().any(|it| it.gateway == member.gateway) {
            return Err(DispatcherProblem::Repeated);
        }
        if self.members.len() == MAX_MEMBERS {
            return Err(DispatcherProblem::TooManyMembers);
        }
        self.members.push(member);
        Ok(())
    }

    /// What is wrong with the set as a whole.
    pub(super) fn problem(&self, algorithm: DispatcherAlgorithm) -> Option<DispatcherProblem> {
        if self.members.is_empty() {
            return Some(DispatcherProblem::NoMembers);
        }
        let weights = self.members.iter().filter_map(|member| member.weight);
        let sum = weights.map(u32::from).sum();
        let is_odd = algorithm == DispatcherAlgorithm::Weight && ![0, 100].contains(&sum);
        is_odd.then_some(DispatcherProblem::WeightSum { sum })
    }

    /// The group; `None` if it would have no members.
    pub(super) fn group(
        self,
        id: u32,
        algorithm: DispatcherAlgorithm,
        names: &[Box<str>],
    ) -> Option<GroupDescription> {
        let mut members = self.members;
        let is_serial = algorithm == DispatcherAlgorithm::Serial;
        if is_serial {
            // Of equal priorities, Kamailio takes the later row first.
            members.reverse();
            members.sort_by_key(|member| Reverse(member.priority));
        }
        let members = members.iter().zip(0..).filter_map(|(member, place)| {
            Some(MemberDescription {
                gateway: names.get(member.gateway)?.clone(),
                weight: member.weight.unwrap_or(1),
                priority: if is_serial {
                    place
                } else {
                    u16::from(member.weight.is_none())
                },
            })
        });
        let mut group = GroupDescription::new(&dispatcher_group(id));
        group.algorithm = algorithm.of_group();
        group.members = members.collect();
        (!group.members.is_empty()).then_some(group)
    }
}
