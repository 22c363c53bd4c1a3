//! A node with gateways, prefixes, rules and limits, for the tests of them.

use crate::bench::{ALICE, Bench, request, settings};
use sip_elements::Settings;
use sip_message::Uri;
use sip_routing::Policy;
use sip_routing::gateway::{Descriptions, Gateway, GatewayDescription, Gateways, GroupDescription};
use sip_routing::limit::{self, Limits};
use sip_routing::prefix::{Builder, PrefixTable};
use sip_routing::rule::{KnownNames, RuleDescription, RuleSet};
use sip_transport::selection::Destination;
use std::sync::Arc;

pub(crate) const GW_A: &str = "192.0.2.51:5060";
pub(crate) const GW_B: &str = "192.0.2.52:5060";
pub(crate) const GW_C: &str = "192.0.2.53:5060";
pub(crate) const NUMBER: &str = "sip:+4989123@example.org";
pub(crate) const AS_ALICE: &str = "sip:alice@example.org";

/// What a policy is built from.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) gateways: Descriptions,
    pub(crate) prefixes: Vec<(&'static str, &'static str, &'static str)>,
    pub(crate) limits: limit::Description,
    pub(crate) rules: Vec<RuleDescription>,
}

/// A gateway that is not probed.
pub(crate) fn gateway(name: &str, uri: &str) -> GatewayDescription {
    let uri = Uri::parse(uri.as_bytes()).expect("a URI");
    let destination = Destination::of_uri(&uri).expect("a destination");
    let mut gateway = GatewayDescription::new(name, destination);
    gateway.health.probe = false;
    gateway
}

/// The gateways `a`, `b` and `c`, tried in this order by the group `pstn`; the group `c-first` tries `c`, then `a`.
pub(crate) fn three_gateways() -> Descriptions {
    let in_order = |name: &str, members: &[&str]| {
        let group = GroupDescription::new(name);
        let mut group = members.iter().fold(group, |group, name| group.member(name));
        for (member, priority) in group.members.iter_mut().zip(0..) {
            member.priority = priority;
        }
        group
    };
    let at = |name, address: &str| gateway(name, &format!("sip:{address}"));
    Descriptions {
        gateways: vec![at("a", GW_A), at("b", GW_B), at("c", GW_C)],
        groups: vec![
            in_order("pstn", &["a", "b", "c"]),
            in_order("c-first", &["c", "a"]),
            in_order("only-a", &["a"]),
        ],
    }
}

/// The rule `out`: numbers go to this group.
pub(crate) fn to_group(group: &str) -> RuleDescription {
    RuleDescription {
        name: "out".into(),
        user: Some(vec!["+*".into()]),
        group: Some(group.into()),
        ..RuleDescription::default()
    }
}

impl Declared {
    /// Three gateways, and a rule that sends numbers to this group.
    pub(crate) fn to_group(group: &str) -> Self {
        Self {
            gateways: three_gateways(),
            rules: vec![to_group(group)],
            ..Self::default()
        }
    }

    pub(crate) fn policy(self, settings: &Settings) -> Arc<Policy> {
        self.policy_after(settings, None)
    }

    /// The policy that a reload makes.
    pub(crate) fn policy_after(
        self,
        settings: &Settings,
        previous: Option<&Policy>,
    ) -> Arc<Policy> {
        let before = previous.map(|it| &it.gateways);
        let gateways = Gateways::new(self.gateways, before).expect("gateways");
        let groups: Vec<&str> = gateways.groups().map(|group| group.name()).collect();
        let limits = Limits::new(&self.limits, previous.map(|it| &it.limits)).expect("limits");
        let named: Vec<&str> = self.limits.named.iter().map(|it| &*it.name).collect();
        let mut builder = Builder::new(groups.iter().copied());
        for ((table, prefix, groups), line) in self.prefixes.iter().zip(1..) {
            builder.row(line, table, prefix, groups);
        }
        let prefixes: PrefixTable = builder.build().expect("prefixes");
        let known = KnownNames {
            groups: &groups,
            prefixes: &["default"],
            limits: &named,
            listeners: &settings.listeners,
            networks: &[],
        };
        let rules = RuleSet::new(&self.rules, &known, previous.map(|it| &it.rules)).expect("rules");
        Arc::new(Policy {
            gateways,
            prefixes: Arc::new(prefixes),
            limits,
            rules,
        })
    }
}

/// A node with this policy. It believes who calls.
pub(crate) struct Routed {
    pub(crate) bench: Bench,
    pub(crate) policy: Arc<Policy>,
}

pub(crate) fn routed(declared: Declared) -> Routed {
    let mut settings = settings();
    settings.challenge.clear();
    routed_with(settings, declared)
}

pub(crate) fn routed_with(mut settings: Settings, declared: Declared) -> Routed {
    let policy = declared.policy(&settings);
    settings.policy = Arc::clone(&policy);
    let bench = Bench::new(settings).with_subscribers();
    Routed { bench, policy }
}

impl Routed {
    pub(crate) fn gateway(&self, name: &str) -> &Arc<Gateway> {
        self.policy.gateways.gateway(name).expect("a gateway")
    }

    /// The calls that hold a place on each gateway.
    pub(crate) fn live(&self) -> [u64; 3] {
        ["a", "b", "c"].map(|name| self.gateway(name).live_calls())
    }

    /// Alice calls the number. Returns the INVITE that leaves, and where it goes.
    pub(crate) fn call(&mut self) -> (String, String) {
        self.call_with("")
    }

    pub(crate) fn call_with(&mut self, extra: &str) -> (String, String) {
        let sent = self.bench.receive(ALICE, &invite("i1", extra));
        let (to, invite) = sent.into_iter().next_back().expect("a copy");
        assert!(invite.starts_with("INVITE "), "{invite}");
        (to.to_string(), invite)
    }

    /// A response from where the request went. Returns what the node then sends, without ACKs of refusals.
    pub(crate) fn reply(
        &mut self,
        (from, request): &(String, String),
        status: &str,
    ) -> Vec<(String, String)> {
        let response = response(request, status);
        let sent = self.bench.receive(from, &response).into_iter();
        let sent = sent.filter(|(_, text)| !text.starts_with("ACK "));
        sent.map(|(to, text)| (to.to_string(), text)).collect()
    }
}

pub(crate) fn invite(branch: &str, extra: &str) -> String {
    request("INVITE", NUMBER, AS_ALICE, branch, extra)
}

/// A response of a gateway, with header fields and a body behind a blank line in `status`.
pub(crate) fn response(request: &str, status: &str) -> String {
    let accepted = crate::bench::accept_at(request, "sip:gw@192.0.2.50:5060");
    accepted.replace("200 OK", status)
}

/// The only message, and where it goes.
pub(crate) fn one(sent: Vec<(String, String)>) -> (String, String) {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.into_iter().next().unwrap_or_default()
}
