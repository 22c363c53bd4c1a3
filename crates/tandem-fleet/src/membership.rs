//! The membership of a fleet: what the source says, what operators say on top, and the grace period of nodes that disappear. It reads no
//! clock and sends nothing.
//!
//! ```text
//!              listed                       unlisted                    grace over
//! (unknown) ───────────▶ as the source says ─────────▶ draining ──────────────────▶ (unknown)
//!                           │  ▲                          │ listed: as the source says
//!                     drain │  │ enable                   │ removed: (unknown)
//!                           ▼  │
//!                         draining, or hidden (remove); ends when the node is unknown
//! ```

use crate::members::{InvalidMembers, MOST_MEMBERS, Member, MemberSet, MemberState, check};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an operator ordered for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Override {
    /// It gets no new calls.
    Drain,
    /// Edges do not see it.
    Remove,
}

/// Why an order is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No node has this instance.
    #[error("no node has the instance {0}; GET /v1/nodes lists the nodes")]
    Unknown(String),
    /// Only the source can add nodes.
    #[error(
        "the source of members ({origin}) does not list the instance {instance}: a node joins when its source lists it"
    )]
    NotListed {
        /// The source.
        origin: &'static str,
        /// The instance.
        instance: String,
    },
    /// Another node has a value that must be unique.
    #[error("{0}; remove the other node first, or replace the record of an instance with `force`")]
    Taken(InvalidMembers),
    /// The record is wrong.
    #[error("{0}")]
    Invalid(InvalidMembers),
    /// Nobody would take new calls.
    #[error(
        "{0} is the last active node: without it, nobody takes new calls; `force` does it all the same"
    )]
    LastActive(String),
    /// Nobody would be left.
    #[error("{0} is the last node: edges accept no empty set")]
    LastNode(String),
}

/// What is known about one node.
#[derive(Clone, Debug)]
struct Known {
    /// As the source describes it.
    member: Member,
    ordered: Option<Override>,
    /// When the source stopped listing it.
    gone: Option<Instant>,
}

impl Known {
    /// What edges see.
    fn seen(&self) -> Option<Member> {
        let state = match (self.ordered, self.gone) {
            (Some(Override::Remove), _) => return None,
            (Some(Override::Drain), _) | (_, Some(_)) => MemberState::Draining,
            (None, None) => self.member.state,
        };
        Some(Member {
            state,
            ..self.member.clone()
        })
    }
}

/// A node as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// As edges see it, or would see it if it were not removed.
    #[serde(flatten)]
    pub member: Member,
    /// What an operator ordered.
    #[serde(rename = "override")]
    pub ordered: Option<Override>,
    /// Whether the source lists it. If not, it disappears when its grace period is over.
    pub listed: bool,
}

/// What outlives a restart of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// What operators ordered, by instance.
    #[serde(default)]
    pub overrides: BTreeMap<String, Override>,
    /// The nodes, if the API is their source.
    #[serde(default)]
    pub nodes: Vec<Member>,
}

/// The nodes of the fleet, with the set that edges have.
#[derive(Debug)]
pub struct Membership {
    /// The word for the source in messages.
    origin: &'static str,
    /// Whether operators add the nodes.
    is_api: bool,
    grace: Duration,
    epoch: String,
    nodes: BTreeMap<String, Known>,
    /// Overrides of a former controller, until the source lists nodes for the first time.
    awaited: BTreeMap<String, Override>,
    published: Option<Arc<MemberSet>>,
}

impl Membership {
    /// A fleet without nodes. `origin`: the source in messages; `None`: operators add the nodes through the API.
    pub fn new(origin: Option<&'static str>, grace: Duration, epoch: String, saved: Saved) -> Self {
        let mut membership = Self {
            origin: origin.unwrap_or("API"),
            is_api: origin.is_none(),
            grace,
            epoch,
            nodes: BTreeMap::new(),
            awaited: BTreeMap::new(),
            published: None,
        };
        if !membership.is_api {
            membership.awaited = saved.overrides;
        } else if check(&saved.nodes).is_ok() {
            let known = |member: Member| {
                let ordered = saved.overrides.get(&member.instance).copied();
                let gone = None;
                (
                    member.instance.clone(),
                    Known {
                        member,
                        ordered,
                        gone,
                    },
                )
            };
            membership.nodes = saved.nodes.into_iter().map(known).collect();
        }
        membership.publish();
        membership
    }

    /// The set that edges have; `None` as long as there is none.
    pub fn published(&self) -> Option<&Arc<MemberSet>> {
        self.published.as_ref()
    }

    /// All nodes, with those that edges do not see.
    pub fn nodes(&self) -> Vec<NodeView> {
        let view = |known: &Known| {
            let seen = known.seen().unwrap_or_else(|| Member {
                state: MemberState::Draining,
                ..known.member.clone()
            });
            NodeView {
                member: seen,
                ordered: known.ordered,
                listed: known.gone.is_none(),
            }
        };
        self.nodes.values().map(view).collect()
    }

    /// What to save.
    pub fn saved(&self) -> Saved {
        let known = || self.nodes.iter();
        let orders =
            known().filter_map(|(instance, known)| Some((instance.clone(), known.ordered?)));
        let mut overrides = self.awaited.clone();
        overrides.extend(orders);
        let members = known()
            .filter(|_| self.is_api)
            .map(|(_, known)| known.member.clone());
        Saved {
            overrides,
            nodes: members.collect(),
        }
    }

    /// Takes what the source lists now. Nodes that it does not list any longer drain for the grace period.
    ///
    /// # Errors
    /// The list is empty or invalid. Nothing changes.
    pub fn update(&mut self, listed: Vec<Member>, now: Instant) -> Result<(), InvalidMembers> {
        check(&listed)?;
        for known in self.nodes.values_mut() {
            known.gone.get_or_insert(now);
        }
        let awaited = std::mem::take(&mut self.awaited);
        for member in listed {
            let ordered = match self.nodes.get(&member.instance) {
                Some(known) => known.ordered,
                None => awaited.get(&member.instance).copied(),
            };
            let known = Known {
                ordered,
                gone: None,
                member,
            };
            self.nodes.insert(known.member.instance.clone(), known);
        }
        self.forget(now);
        self.publish();
        Ok(())
    }

    /// Forgets nodes whose grace period is over.
    pub fn tick(&mut self, now: Instant) {
        self.forget(now);
        self.publish();
    }

    /// When the next grace period is over.
    pub fn next_tick(&self) -> Option<Instant> {
        let gone = self.nodes.values().filter_map(|known| known.gone);
        gone.min().map(|gone| gone + self.grace)
    }

    /// Lets a node take new calls, and adds it if the API is the source. `force` replaces a record of the same instance.
    ///
    /// # Errors
    /// [`Refusal`]: [`Refusal::Invalid`], [`Refusal::Taken`] or [`Refusal::NotListed`].
    pub fn enable(&mut self, member: Member, force: bool) -> Result<(), Refusal> {
        member.check().map_err(Refusal::Invalid)?;
        let instance = member.instance.clone();
        if let Some(known) = self.nodes.get_mut(&instance) {
            let is_same =
                known.member.name == member.name && known.member.address == member.address;
            if is_same && !self.is_api {
                known.ordered = None;
                self.publish();
                return Ok(());
            }
            let may_replace = force && self.is_api;
            if !is_same && !may_replace {
                return Err(Refusal::Taken(InvalidMembers::Twice {
                    field: "instance",
                    value: instance.clone(),
                    instances: [known.member.name.clone(), member.name],
                }));
            }
        } else if !self.is_api {
            let origin = self.origin;
            return Err(Refusal::NotListed { origin, instance });
        }
        let others = self.nodes.values().map(|known| &known.member);
        let others = others.filter(|other| other.instance != instance);
        let mut all: Vec<Member> = others.cloned().collect();
        all.push(member.clone());
        check(&all).map_err(Refusal::Taken)?;
        let known = Known {
            member,
            ordered: None,
            gone: None,
        };
        self.nodes.insert(instance, known);
        self.publish();
        Ok(())
    }

    /// Lets a known node take new calls again.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn lift(&mut self, instance: &str) -> Result<(), Refusal> {
        let known = self.nodes.get_mut(instance);
        let known = known.ok_or_else(|| Refusal::Unknown(instance.to_owned()))?;
        known.ordered = None;
        self.publish();
        Ok(())
    }

    /// Gives a node no new calls.
    ///
    /// # Errors
    /// [`Refusal::Unknown`]; without `force`, [`Refusal::LastActive`].
    pub fn drain(&mut self, instance: &str, force: bool) -> Result<(), Refusal> {
        let was = self.must_not_be_last(instance, force)?;
        if was.is_none() {
            return Ok(()); // A removed node gets no new calls.
        }
        if let Some(known) = self.nodes.get_mut(instance) {
            known.ordered = Some(Override::Drain);
        }
        self.publish();
        Ok(())
    }

    /// Takes a node out of the set at once, also one in its grace period. A node that its source still lists stays hidden until it is
    /// enabled or the source has forgotten it.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::LastNode`]; without `force`, [`Refusal::LastActive`].
    pub fn remove(&mut self, instance: &str, force: bool) -> Result<(), Refusal> {
        let was = self.must_not_be_last(instance, force)?;
        let seen = self.nodes.values().filter_map(Known::seen);
        if was.is_some() && seen.count() == 1 {
            return Err(Refusal::LastNode(instance.to_owned()));
        }
        let is_listed = |known: &Known| known.gone.is_none() && !self.is_api;
        if self.nodes.get(instance).is_some_and(is_listed) {
            if let Some(known) = self.nodes.get_mut(instance) {
                known.ordered = Some(Override::Remove);
            }
        } else {
            self.nodes.remove(instance);
        }
        self.publish();
        Ok(())
    }

    /// What edges see of a node, unless it is the last active one.
    fn must_not_be_last(&self, instance: &str, force: bool) -> Result<Option<Member>, Refusal> {
        let known = self.nodes.get(instance);
        let known = known.ok_or_else(|| Refusal::Unknown(instance.to_owned()))?;
        let seen = known.seen();
        let is_active = |member: &Member| member.state == MemberState::Active;
        let mut others = self
            .nodes
            .values()
            .filter(|it| it.member.instance != instance);
        let another = others.any(|other| other.seen().as_ref().is_some_and(is_active));
        if seen.as_ref().is_some_and(is_active) && !another && !force {
            return Err(Refusal::LastActive(instance.to_owned()));
        }
        Ok(seen)
    }

    /// Forgets nodes that are gone: after their grace period, if an operator removed them, and if a listed node has their name, address or
    /// id, because an address that is used again must not get the calls of its former owner.
    fn forget(&mut self, now: Instant) {
        let listed: Vec<Member> = self
            .nodes
            .values()
            .filter(|known| known.gone.is_none())
            .map(|known| known.member.clone())
            .collect();
        let grace = self.grace;
        self.nodes.retain(|_, known| {
            let Some(gone) = known.gone else { return true };
            let own = &known.member;
            let is_replaced = listed.iter().any(|other| {
                other.name == own.name || other.address == own.address || other.id() == own.id()
            });
            let is_over = now.saturating_duration_since(gone) >= grace;
            !(is_over || is_replaced || known.ordered == Some(Override::Remove))
        });
        let too_many = self.nodes.len().saturating_sub(MOST_MEMBERS);
        let gone = self
            .nodes
            .iter()
            .filter_map(|(instance, known)| Some((known.gone?, instance.clone())));
        let mut gone: Vec<_> = gone.collect();
        gone.sort();
        for (_, instance) in gone.into_iter().take(too_many) {
            self.nodes.remove(&instance);
        }
    }

    /// Makes a new set if edges would see a difference. An empty set is never made.
    fn publish(&mut self) {
        let seen: Vec<Member> = self.nodes.values().filter_map(Known::seen).collect();
        let last = self.published.as_deref();
        if last.is_some_and(|last| last.nodes() == seen) {
            return;
        }
        let generation = last.map_or(1, |last| last.generation() + 1);
        // The nodes were checked one by one. What still fails is the empty set.
        if let Ok(set) = MemberSet::new(self.epoch.clone(), generation, seen) {
            self.published = Some(Arc::new(set));
        }
    }
}

#[cfg(test)]
mod tests;
