//! All limits of a configuration, and how a call passes them: all or none.

use super::description::{DeclaredEach, Description, InvalidLimit};
use super::each::{Each, EachStats};
use super::meter::{Entered, Place};
use super::networks::ByNetwork;
use super::single::{Counts, Limit, LimitStats};
use super::source::Source;
use super::{Bounds, Excess};
use sip_transport::{IpNet, Time};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Subscribers with longer names, in bytes, share a limit if their names begin alike.
const MAX_NAME: usize = 255;

/// What a limit applies to, in the order in which a call passes the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Each source: an IPv4 address or an IPv6 /64 network.
    Source,
    /// Each subscriber.
    Subscriber,
    /// A source network.
    Network,
    /// The rules that name the limit.
    Rule,
    /// All calls.
    Overall,
}

impl Scope {
    /// One word, for logs and metrics. For a limit without a name of its own, this is its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Subscriber => "subscriber",
            Self::Network => "network",
            Self::Rule => "rule",
            Self::Overall => "overall",
        }
    }
}

/// The number of scopes, and of limits that a call passes.
const SCOPES: usize = Scope::Overall as usize + 1;

/// What decides which limits apply to a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// The address that the call comes from.
    pub source: IpAddr,
    /// The subscriber who calls, such as `user@domain`; `None` if unknown.
    pub subscriber: Option<&'c [u8]>,
    /// The limit of the rule that applies to the call. It is from [`Limits::named`].
    pub rule: Option<&'c Limit>,
}

/// The places of a call in all its limits. Keep them until the call ends; dropping them gives the places back.
#[derive(Debug, Default)]
pub struct Permits([Option<Place>; SCOPES]);

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'l> {
    /// The name of the limit.
    pub limit: &'l str,
    /// What the limit applies to.
    pub scope: Scope,
    /// The bound that the call exceeds.
    pub excess: Excess,
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "limit {:?}: {}", self.limit, self.excess)
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sources and subscribers that it looked at.
    pub examined: usize,
    /// Those that it removed, because they have no live call and a full bucket.
    pub removed: usize,
}

/// All limits of a configuration. What they have counted outlives it.
#[derive(Debug)]
pub struct Limits {
    each_source: Option<Each<Source>>,
    each_subscriber: Option<Each<Box<[u8]>>>,
    /// The limits of networks, then those of rules.
    named: Box<[Arc<Limit>]>,
    /// Indexes of `named`.
    by_network: ByNetwork<u32>,
    overall: Limit,
}

impl Default for Limits {
    /// No limit, but all calls are counted.
    fn default() -> Self {
        Self {
            each_source: None,
            each_subscriber: None,
            named: Box::default(),
            by_network: ByNetwork::new([]),
            overall: Limit::new(
                Scope::Overall,
                Scope::Overall.label(),
                Bounds::default(),
                None,
            ),
        }
    }
}

impl Limits {
    /// Parses a description. The limits take over what limits of the same name in `previous` have counted, their live calls and their
    /// buckets. A limit that `previous` does not have counts a call that is live already from its [`Limits::recount`] on.
    pub fn new(description: &Description, previous: Option<&Self>) -> Result<Self, InvalidLimit> {
        description.check()?;
        let mut named = Vec::new();
        let mut networks: Vec<(IpNet, u32)> = Vec::new();
        for (limit, index) in description.networks.iter().zip(0..) {
            networks.extend(limit.networks.iter().map(|network| (*network, index)));
            let bounds = limit.bounds.parse(&limit.name)?;
            named.push(take_over(Scope::Network, &limit.name, bounds, previous));
        }
        for limit in &description.named {
            let bounds = limit.bounds.parse(&limit.name)?;
            named.push(take_over(Scope::Rule, &limit.name, bounds, previous));
        }
        let name = Scope::Overall.label();
        let bounds = description.overall.parse(name)?;
        let overall = previous.map(|limits| &limits.overall);
        Ok(Self {
            each_source: each(
                Scope::Source,
                description.each_source,
                previous.and_then(|limits| limits.each_source.as_ref()),
            )?,
            each_subscriber: each(
                Scope::Subscriber,
                description.each_subscriber,
                previous.and_then(|limits| limits.each_subscriber.as_ref()),
            )?,
            named: named.into(),
            by_network: ByNetwork::new(networks),
            overall: Limit::new(Scope::Overall, name, bounds, overall),
        })
    }

    /// Whether nothing is limited, so that calls need not be counted.
    pub fn is_unlimited(&self) -> bool {
        self.each_source.is_none()
            && self.each_subscriber.is_none()
            && self.named.is_empty()
            && *self.overall.bounds() == Bounds::default()
    }

    /// Admits a new call, or refuses it and charges no limit. The first limit that refuses it is the result.
    pub fn admit<'l>(&'l self, call: &Call<'l>, now: Time) -> Result<Permits, Refused<'l>> {
        let mut admission = Admission::new(now);
        match self.pass(call, &mut admission) {
            Ok(()) => Ok(admission.conclude()),
            Err(refused) => {
                admission.refund();
                Err(refused)
            }
        }
    }

    /// Admits a call that this subscriber diverts to the limit of the subscriber and that of a rule, or refuses it and charges no limit.
    /// The call has passed the other limits when it arrived.
    pub fn admit_diverted<'l>(
        &'l self,
        subscriber: &[u8],
        rule: Option<&'l Limit>,
        now: Time,
    ) -> Result<Permits, Refused<'l>> {
        let mut admission = Admission::new(now);
        match self.pass_diverted(subscriber, rule, &mut admission) {
            Ok(()) => Ok(admission.conclude()),
            Err(refused) => {
                admission.refund();
                Err(refused)
            }
        }
    }

    fn pass_diverted<'l>(
        &'l self,
        subscriber: &[u8],
        rule: Option<&'l Limit>,
        admission: &mut Admission<'l>,
    ) -> Result<(), Refused<'l>> {
        if let Some(each) = &self.each_subscriber {
            let entered = each.enter(bounded(subscriber), admission.now);
            admission.enter_each(each, entered)?;
        }
        rule.map_or(Ok(()), |limit| admission.enter(limit))
    }

    fn pass<'l>(
        &'l self,
        call: &Call<'l>,
        admission: &mut Admission<'l>,
    ) -> Result<(), Refused<'l>> {
        let now = admission.now;
        if let Some(each) = &self.each_source {
            let entered = each.enter(&Source::of(call.source), now);
            admission.enter_each(each, entered)?;
        }
        if let (Some(each), Some(name)) = (&self.each_subscriber, call.subscriber) {
            let entered = each.enter(bounded(name), now);
            admission.enter_each(each, entered)?;
        }
        if let Some(limit) = self.network(call.source) {
            admission.enter(limit)?;
        }
        if let Some(limit) = call.rule {
            admission.enter(limit)?;
        }
        admission.enter(&self.overall)
    }

    /// Takes the places of a call that is live already, such as one of a restored dialog. It passes whatever the limits are. It is not
    /// charged, and not counted as admitted.
    pub fn restore(&self, call: &Call<'_>) -> Permits {
        let source = self.each_source.as_ref();
        let subscriber = self.each_subscriber.as_ref().zip(call.subscriber);
        Permits([
            source.and_then(|each| each.restore(&Source::of(call.source))),
            subscriber.and_then(|(each, name)| each.restore(bounded(name))),
            self.network(call.source).and_then(Limit::restore),
            call.rule.and_then(Limit::restore),
            self.overall.restore(),
        ])
    }

    /// Moves the places of a live call to the limits that apply to it now. As [`Limits::restore`], it passes whatever the limits are, and
    /// is not charged. What is not known of the call stays: a place of its subscriber without `subscriber`, one of a rule without `rule`.
    pub fn recount(&self, permits: &mut Permits, call: &Call<'_>) {
        let [source, subscriber, network, rule, overall] = &mut permits.0;
        match &self.each_source {
            Some(each) => each.recount(&Source::of(call.source), source),
            None => *source = None,
        }
        match (&self.each_subscriber, call.subscriber) {
            (Some(each), Some(name)) => each.recount(bounded(name), subscriber),
            (None, _) => *subscriber = None,
            (Some(_), None) => {}
        }
        match self.network(call.source) {
            Some(limit) => limit.recount(network),
            None => *network = None,
        }
        if let Some(limit) = call.rule {
            limit.recount(rule);
        }
        self.overall.recount(overall);
    }

    /// Takes the places of a live call that this subscriber has diverted. See [`Limits::admit_diverted`] and [`Limits::restore`].
    pub fn restore_diverted(&self, subscriber: &[u8], rule: Option<&Limit>) -> Permits {
        let each = self.each_subscriber.as_ref();
        let mut permits = Permits::default();
        let [_, of_subscriber, _, of_rule, _] = &mut permits.0;
        *of_subscriber = each.and_then(|each| each.restore(bounded(subscriber)));
        *of_rule = rule.and_then(Limit::restore);
        permits
    }

    /// The limit of the smallest network that contains the address.
    pub fn network(&self, address: IpAddr) -> Option<&Limit> {
        let index = self.by_network.find(address)?;
        self.named.get(index as usize).map(Arc::as_ref)
    }

    /// The limit of a network or a rule by its name.
    pub fn named(&self, name: &str) -> Option<&Arc<Limit>> {
        self.named.iter().find(|limit| limit.name() == name)
    }

    /// The limit of rules with this name.
    pub fn of_rule(&self, name: &str) -> Option<&Limit> {
        let limit = self.named(name).map(AsRef::as_ref);
        limit.filter(|limit| limit.scope() == Scope::Rule)
    }

    /// The limit of all calls.
    pub const fn overall(&self) -> &Limit {
        &self.overall
    }

    /// Forgets sources and subscribers that have no live call and a full bucket. Examines up to `budget` of each kind and goes on
    /// from there next time. Call it every second or so, outside the call path.
    pub fn sweep(&self, now: Time, budget: usize) -> Swept {
        let source = self.each_source.as_ref();
        let subscriber = self.each_subscriber.as_ref();
        let swept = [
            source.map(|each| each.sweep(now, budget)),
            subscriber.map(|each| each.sweep(now, budget)),
        ];
        let add = |sum: Swept, (examined, removed)| Swept {
            examined: sum.examined + examined,
            removed: sum.removed + removed,
        };
        swept.into_iter().flatten().fold(Swept::default(), add)
    }

    /// The counts of all limits with a name: networks, rules, overall.
    pub fn stats(&self) -> impl Iterator<Item = LimitStats<'_>> {
        let named = self.named.iter().map(Arc::as_ref);
        named.chain([&self.overall]).map(Limit::stats)
    }

    /// The counts of the limits of each source and each subscriber, if there are such limits.
    pub fn each_stats(&self) -> impl Iterator<Item = EachStats> {
        let source = self.each_source.as_ref().map(Each::stats);
        let subscriber = self.each_subscriber.as_ref().map(Each::stats);
        source.into_iter().chain(subscriber)
    }

    /// Live calls of the source that an address belongs to.
    pub fn source_calls(&self, address: IpAddr) -> u32 {
        let each = self.each_source.as_ref();
        each.map_or(0, |each| each.table().live(&Source::of(address)))
    }

    /// Live calls of a subscriber.
    pub fn subscriber_calls(&self, name: &[u8]) -> u32 {
        let each = self.each_subscriber.as_ref();
        each.map_or(0, |each| each.table().live(bounded(name)))
    }

    /// Calls `visit` with the first address of each source and its live calls. For lists, not for the call path.
    pub fn for_each_source(&self, mut visit: impl FnMut(IpAddr, u32)) {
        if let Some(each) = &self.each_source {
            each.table()
                .for_each(|source, live| visit(source.address(), live));
        }
    }

    /// Calls `visit` with the name of each subscriber and its live calls. For lists, not for the call path.
    pub fn for_each_subscriber(&self, mut visit: impl FnMut(&[u8], u32)) {
        if let Some(each) = &self.each_subscriber {
            each.table().for_each(|name, live| visit(name, live));
        }
    }
}

fn take_over(scope: Scope, name: &str, bounds: Bounds, previous: Option<&Limits>) -> Arc<Limit> {
    let previous = previous.and_then(|limits| limits.named(name));
    Arc::new(Limit::new(scope, name, bounds, previous.map(Arc::as_ref)))
}

fn each<K: std::hash::Hash + Eq>(
    scope: Scope,
    declared: Option<DeclaredEach>,
    previous: Option<&Each<K>>,
) -> Result<Option<Each<K>>, InvalidLimit> {
    let parsed = declared.map(|declared| declared.parse(scope)).transpose()?;
    Ok(parsed.map(|(bounds, max_keys)| Each::new(scope, bounds, max_keys, previous)))
}

fn bounded(name: &[u8]) -> &[u8] {
    name.get(..MAX_NAME).unwrap_or(name)
}

/// A call on its way through the limits.
struct Admission<'l> {
    permits: Permits,
    passed: [Option<Passed<'l>>; SCOPES],
    now: Time,
}

/// A limit that has admitted the call.
#[derive(Clone, Copy)]
struct Passed<'l> {
    bounds: &'l Bounds,
    counts: &'l Counts,
    /// Calls that were live then.
    live: u32,
}

impl<'l> Admission<'l> {
    fn new(now: Time) -> Self {
        Self {
            permits: Permits::default(),
            passed: [None; SCOPES],
            now,
        }
    }

    fn enter(&mut self, limit: &'l Limit) -> Result<(), Refused<'l>> {
        let entered = limit.enter(self.now).map_err(|excess| Refused {
            limit: limit.name(),
            scope: limit.scope(),
            excess,
        })?;
        self.note(limit.scope(), limit.bounds(), limit.counts(), entered);
        Ok(())
    }

    fn enter_each<K: std::hash::Hash + Eq>(
        &mut self,
        each: &'l Each<K>,
        entered: Result<Entered, Excess>,
    ) -> Result<(), Refused<'l>> {
        let scope = each.scope();
        let entered = entered.map_err(|excess| Refused {
            limit: scope.label(),
            scope,
            excess,
        })?;
        self.note(scope, each.bounds(), each.counts(), entered);
        Ok(())
    }

    fn note(&mut self, scope: Scope, bounds: &'l Bounds, counts: &'l Counts, entered: Entered) {
        let live = entered.live;
        self.permits.0[scope as usize] = Some(entered.place);
        self.passed[scope as usize] = Some(Passed {
            bounds,
            counts,
            live,
        });
    }

    /// Counts the call as admitted.
    fn conclude(self) -> Permits {
        for passed in self.passed.iter().flatten() {
            passed.counts.reached(passed.live);
        }
        let named = self.passed.iter().skip(Scope::Network as usize);
        for passed in named.flatten() {
            passed.counts.admitted();
        }
        self.permits
    }

    /// Takes back all charges. The places are given back afterwards: see [`Place::charge`].
    fn refund(self) {
        let places = self.permits.0.iter().zip(&self.passed);
        for (place, passed) in places {
            if let (Some(place), Some(passed)) = (place, passed) {
                place.refund(passed.bounds);
            }
        }
    }
}
