//! Requests and rules for the tests.

use sip_message::Message;
use sip_routing::rule::{Arrival, Facts, KnownNames, Outcome, Rule, RuleDescription, RuleSet};
use sip_transport::{IpNet, Listener, ListenerId, Protocol};
use std::sync::LazyLock;

/// A request to be matched.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub method: &'a str,
    pub uri: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    /// Header field lines, each with its line end.
    pub headers: &'a str,
    pub source: &'a str,
    pub listener: u16,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            method: "INVITE",
            uri: "sip:bob@example.org",
            from: "<sip:alice@example.com>;tag=1",
            to: "<sip:bob@example.org>",
            headers: "",
            source: "192.0.2.1",
            listener: 0,
        }
    }
}

impl Call<'_> {
    /// The bytes of the request.
    pub fn text(&self) -> String {
        format!(
            "{} {} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\n\
             Call-ID: c@example.com\r\nCSeq: 1 {}\r\n{}Content-Length: 0\r\n\r\n",
            self.method, self.uri, self.from, self.to, self.method, self.headers
        )
    }

    /// The name of the rule that matches first. `explain` must agree.
    pub fn first<'s>(&self, rules: &'s RuleSet) -> Option<&'s str> {
        let text = self.text();
        let message = Message::parse(text.as_bytes()).expect("a message");
        let facts = self.facts(&message);
        let explained = rules.explain(&facts);
        let first = rules.first(&facts).map(Rule::name);
        let matched = explained
            .last()
            .filter(|step| step.outcome == Outcome::Matched);
        assert_eq!(first, matched.map(|step| &*step.rule), "{text}");
        first
    }

    /// What is known of the request.
    pub fn facts<'f, 'm>(&self, request: &'f Message<'m>) -> Facts<'f, 'm> {
        Facts {
            request,
            arrival: Some(Arrival {
                source: self.source.parse().expect("an address"),
                listener: ListenerId(self.listener),
                protocol: LISTENERS[usize::from(self.listener)].protocol,
            }),
        }
    }
}

static LISTENERS: LazyLock<Vec<Listener>> = LazyLock::new(|| {
    [
        (Protocol::Udp, "203.0.113.9:5060"),
        (Protocol::Tcp, "203.0.113.9:5060"),
        (Protocol::Tls, "203.0.113.9:5061"),
        (Protocol::Udp, "[2001:db8::9]:5060"),
    ]
    .map(|(protocol, address)| Listener {
        protocol,
        address: address.parse().expect("an address"),
        prefix_length: 24,
        advertised: address.to_owned(),
        behind_balancer: false,
    })
    .into()
});

static CARRIER: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    ["198.51.100.0/25", "2001:db8:a::/48"]
        .map(|network| network.parse().expect("a network"))
        .into()
});

static NETWORKS: LazyLock<Vec<(&str, &[IpNet])>> =
    LazyLock::new(|| vec![("carrier-a", &CARRIER[..])]);

/// The names that rules of the tests may use.
pub fn known() -> KnownNames<'static> {
    KnownNames {
        networks: &NETWORKS,
        groups: &["carriers", "pbx"],
        prefixes: &["retail"],
        limits: &["trunk"],
        listeners: &LISTENERS,
    }
}

/// A rule that takes the ordinary way.
pub fn rule(name: &str) -> RuleDescription {
    RuleDescription {
        name: name.to_owned(),
        local: true,
        ..RuleDescription::default()
    }
}

/// A list of a condition.
#[expect(clippy::unnecessary_wraps, reason = "as the fields of a rule are")]
pub fn list(entries: &[&str]) -> Option<Vec<String>> {
    Some(entries.iter().map(|entry| (*entry).to_owned()).collect())
}

/// Compiled rules.
pub fn compile(rules: &[RuleDescription]) -> RuleSet {
    match RuleSet::new(rules, &known(), None) {
        Ok(set) => set,
        Err(mistakes) => panic!("{mistakes:?}"),
    }
}
