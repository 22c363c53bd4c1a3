//! The gateways of all sets: one for each destination.

use super::DispatcherOptions;
use crate::kamailio::destination::{identity, is_name, name};
use crate::kamailio::dispatcher_problem::DispatcherProblem;
use sip_routing::gateway::{GatewayDescription, HealthRules, MAX_GATEWAYS};
use sip_transport::selection::Destination;
use std::collections::{HashMap, HashSet};

/// Gateways, in the order of their first rows.
#[derive(Debug, Default)]
pub(super) struct GatewayList {
    gateways: Vec<Gateway>,
    by_identity: HashMap<String, usize>,
    by_id: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
struct Gateway {
    destination: Destination,
    /// The first `duid` that is a name.
    id: Option<Box<str>>,
    max_calls: Option<u32>,
    is_probed: bool,
}

impl GatewayList {
    /// The index of the gateway with this destination. `id` is its `duid`, or empty.
    pub(super) fn add(
        &mut self,
        destination: Destination,
        id: &str,
        problems: &mut Vec<DispatcherProblem>,
    ) -> Result<usize, DispatcherProblem> {
        let identity = identity(&destination);
        let index = match self.by_identity.get(&identity) {
            Some(index) => *index,
            None => self.add_new(identity, destination, id)?,
        };
        if let Err(problem) = self.identify(index, id) {
            problems.push(problem);
        }
        Ok(index)
    }

    /// A gateway is probed if one of its rows says so.
    pub(super) fn probe(&mut self, index: usize, is_probed: bool) {
        if let Some(gateway) = self.gateways.get_mut(index) {
            gateway.is_probed |= is_probed;
        }
    }

    /// Of several maxima, the smallest one counts.
    pub(super) fn limit(&mut self, index: usize, most: u32, problems: &mut Vec<DispatcherProblem>) {
        let Some(gateway) = self.gateways.get_mut(index) else {
            return;
        };
        let before = gateway.max_calls.unwrap_or(most);
        if before != most {
            problems.push(DispatcherProblem::OtherMaximum);
        }
        gateway.max_calls = Some(before.min(most));
    }

    /// The names of all gateways, which are different.
    pub(super) fn names(&self) -> Vec<Box<str>> {
        let own = |gateway: &Gateway| -> Box<str> { name(&gateway.destination).into() };
        let without_id = self.gateways.iter().filter(|it| it.id.is_none());
        let mut taken: HashSet<Box<str>> = without_id.map(own).collect();
        let name_of = |(index, gateway): (usize, &Gateway)| {
            let Some(id) = &gateway.id else {
                return own(gateway);
            };
            // The id may be the name of another gateway.
            let numbered = (index..).map(|number| format!("gateway-{number}").into());
            let mut candidates = [id.clone(), own(gateway)].into_iter().chain(numbered);
            let free = candidates.find(|name| is_name(name) && taken.insert(name.clone()));
            free.unwrap_or_default()
        };
        self.gateways.iter().enumerate().map(name_of).collect()
    }

    /// All gateways, with these names.
    pub(super) fn describe(
        self,
        names: Vec<Box<str>>,
        options: &DispatcherOptions,
    ) -> Vec<GatewayDescription> {
        let gateways = self.gateways.into_iter().zip(names);
        let describe = |(gateway, name): (Gateway, Box<str>)| GatewayDescription {
            max_calls: gateway.max_calls,
            health: HealthRules {
                probe: gateway.is_probed,
                ..options.health.clone()
            },
            failover: options.failover.clone(),
            ..GatewayDescription::new(&name, gateway.destination)
        };
        gateways.map(describe).collect()
    }

    fn add_new(
        &mut self,
        identity: String,
        destination: Destination,
        id: &str,
    ) -> Result<usize, DispatcherProblem> {
        let index = self.gateways.len();
        if index == MAX_GATEWAYS {
            return Err(DispatcherProblem::TooManyGateways);
        }
        let has_id = is_name(id) && !self.by_id.contains_key(id);
        if !has_id && !is_name(&name(&destination)) {
            return Err(DispatcherProblem::NoName);
        }
        self.gateways.push(Gateway {
            destination,
            id: None,
            max_calls: None,
            is_probed: false,
        });
        self.by_identity.insert(identity, index);
        Ok(index)
    }

    fn identify(&mut self, index: usize, id: &str) -> Result<(), DispatcherProblem> {
        let Some(gateway) = self.gateways.get_mut(index).filter(|_| !id.is_empty()) else {
            return Ok(());
        };
        if !is_name(id) {
            return Err(DispatcherProblem::BadId);
        }
        if self.by_id.get(id).is_some_and(|owner| *owner != index) {
            return Err(DispatcherProblem::RepeatedId);
        }
        match &gateway.id {
            None => {
                gateway.id = Some(id.into());
                self.by_id.insert(id.into(), index);
                Ok(())
            }
            Some(first) if **first == *id => Ok(()),
            Some(_) => Err(DispatcherProblem::OtherId),
        }
    }
}
