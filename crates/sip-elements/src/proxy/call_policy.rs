//! What the policy says about a request on its way: what it holds, which gateways it may go to, and how its copies differ.

use super::diversions::{Callee, Diversions, Diverter};
use super::gateway_credentials::Authorization;
use super::gateway_identity::Speaker;
use super::gateways::GatewayRoute;
use super::places::Places;
use crate::routing::Target;
use sip_routing::Policy;
use sip_routing::gateway::Gateway;
use sip_routing::limit::EXEMPT;
use sip_routing::limit::Permits;
use sip_routing::rule::Rule;
use sip_transport::Time;
use std::sync::Arc;

/// Where a request goes, and what the policy says about it.
#[derive(Debug, Default)]
pub struct Onward {
    /// The targets. Empty if the request goes to gateways.
    pub(super) targets: Vec<Target>,
    pub(super) policy: Option<Box<CallPolicy>>,
}

/// What the policy says about a request. It lives as long as the response context.
#[derive(Debug, Default)]
pub(crate) struct CallPolicy {
    /// The places in the limits, until a dialog takes them.
    pub(crate) permits: Option<Permits>,
    /// The gateways that the request may go to.
    pub(crate) route: Option<GatewayRoute>,
    /// The rule that decided, by its number in the rules of this policy. `None` if nothing of it is needed any more.
    pub(crate) rule: Option<(Arc<Policy>, usize)>,
    /// The rule whose limit holds for the call of its sender, or that exempts it. A diversion does not change it.
    pub(crate) limited_by: Option<(Arc<Policy>, usize)>,
    /// Who the call is for, if the callee may divert it.
    pub(crate) diversions: Option<Diversions>,
    /// The sender is trusted, and so is the identity that it asserts.
    pub(crate) is_trusted: bool,
    /// The rule wants no state of the call: no dialog, no record, no place on its path.
    pub(crate) is_stateless: bool,
    /// How it authenticates to the gateway that it goes to.
    pub(crate) authorization: Option<Box<Authorization>>,
    /// How far the identity of the sender is proven, if a gateway wants to know it.
    pub(crate) speaker: Speaker,
}

impl CallPolicy {
    /// The rule that decided.
    pub(super) fn rule(&self) -> Option<&Rule> {
        let (policy, number) = self.rule.as_ref()?;
        policy.rules.get(*number)
    }

    /// The gateway that the request is sent to.
    pub(super) fn gateway(&self) -> Option<&Gateway> {
        self.route.as_ref()?.gateway()
    }

    /// The name of the limit of the rule that decided about the sender's call, or empty.
    pub(super) fn limit(&self) -> &str {
        limit_of(self.limited_by.as_ref())
    }

    /// Whether its rule exempts the sender's call from limits.
    pub(super) fn is_exempt(&self) -> bool {
        self.limit() == EXEMPT
    }

    /// Handles a 2xx to an INVITE in this branch. Returns what its dialog holds from now on.
    pub(super) fn answered(&mut self, branch: u8, status: u16, now: Time) -> Option<Holding<'_>> {
        let permits = self.permits.take();
        let diversions = self.diversions.as_mut();
        let diverters = diversions.map(|it| it.answered(branch)).unwrap_or_default();
        // A borrow of the rule alone: the route is changed beside it.
        let limit = limit_of(self.limited_by.as_ref());
        let texts = Diverter::text_of(&diverters);
        let route = self.route.as_mut();
        let gateway = route.and_then(|route| route.answered(branch, status, now));
        let (place, gateway) = gateway.unzip();
        // A restart must not count a call that its rule has exempted from the limits.
        let is_noted = limit == EXEMPT || !diverters.is_empty();
        let places = Places::new(permits, place);
        let places = places.or_else(|| is_noted.then(Places::default))?;
        Some(Holding {
            places: places.with_diverters(diverters),
            gateway: gateway.map_or("", |gateway| gateway.name()),
            limit,
            diverters: texts,
        })
    }
}

fn limit_of(rule: Option<&(Arc<Policy>, usize)>) -> &str {
    let rule = rule.and_then(|(policy, number)| policy.rules.get(*number));
    let limit = rule.and_then(Rule::limit);
    limit.map_or("", |limit| &*limit.name)
}

/// What a dialog holds from its 2xx on, and what a restart needs to restore it.
#[derive(Debug)]
pub(super) struct Holding<'n> {
    pub(super) places: Places,
    /// The name of the gateway, or empty.
    pub(super) gateway: &'n str,
    /// The name of the limit of the rule, or empty.
    pub(super) limit: &'n str,
    /// Those who diverted the call, as [`Diverter::text_of`] writes them.
    pub(super) diverters: Vec<u8>,
}

impl From<Vec<Target>> for Onward {
    fn from(targets: Vec<Target>) -> Self {
        Self {
            targets,
            policy: None,
        }
    }
}

impl Onward {
    /// Whether the request goes to a gateway, or may be diverted to one.
    pub(crate) fn may_reach_gateways(&self) -> bool {
        let policy = self.policy.as_deref();
        policy.is_some_and(|it| it.route.is_some() || it.diversions.is_some())
    }

    /// These targets, with what the policy says.
    pub(crate) fn new(targets: Vec<Target>, policy: CallPolicy) -> Self {
        let policy = policy.is_needed().then(|| Box::new(policy));
        Self { targets, policy }
    }

    /// The same, with what the policy says.
    #[must_use]
    pub(crate) fn under(self, mut policy: CallPolicy) -> Self {
        policy.diversions = self.policy.and_then(|it| it.diversions);
        Self::new(self.targets, policy)
    }

    /// The same, for a callee that may divert the call.
    #[must_use]
    pub(crate) fn to(mut self, callee: Option<Callee>) -> Self {
        if let Some(callee) = callee {
            self.policy.get_or_insert_default().diversions = Some(Diversions::new(callee));
        }
        self
    }

    /// Whether it holds places in limits.
    pub(crate) fn holds_places(&self) -> bool {
        self.policy.as_deref().is_some_and(CallPolicy::holds_places)
    }

    /// Whether no state of the call is kept.
    pub(super) fn is_stateless(&self) -> bool {
        let policy = self.policy.as_deref();
        policy.is_some_and(|policy| policy.is_stateless)
    }

    /// The same, holding these places in the limits.
    #[must_use]
    pub(crate) fn with_permits(mut self, permits: Permits) -> Self {
        self.policy.get_or_insert_default().permits = Some(permits);
        self
    }
}

impl CallPolicy {
    pub(super) const fn holds_places(&self) -> bool {
        self.permits.is_some()
    }

    const fn is_needed(&self) -> bool {
        let holds = self.permits.is_some() || self.route.is_some() || self.rule.is_some();
        let holds = holds || self.limited_by.is_some();
        holds || self.diversions.is_some() || self.is_trusted || self.is_stateless
    }
}
