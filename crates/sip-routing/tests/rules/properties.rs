//! Any rules and any requests against a naive evaluation.

use crate::requests::{Call, known, list, rule};
use proptest::prelude::*;
use sip_routing::rule::{HeaderDescription, Problem, RuleDescription, RuleSet};
use sip_transport::{IpNet, Protocol};
use std::net::IpAddr;

/// What the model knows of a request.
#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    source: &'static str,
    listener: u16,
    user: String,
    domain: String,
    from_user: String,
    customers: Vec<String>,
    is_escaped: bool,
}

const METHODS: [&str; 3] = ["INVITE", "MESSAGE", "PING"];
const SOURCES: [&str; 5] = [
    "10.0.0.1",
    "10.0.1.1",
    "10.1.0.1",
    "2001:db8::1",
    "2001:db8:1::1",
];
const NETWORKS: [&str; 7] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.0/24",
    "10.0.1.1",
    "2001:db8::/32",
    "2001:db8::/48",
];
const LISTENERS: [&str; 4] = [
    "udp:203.0.113.9:5060",
    "tcp:203.0.113.9:5060",
    "tls:203.0.113.9:5061",
    "udp:[2001:db8::9]:5060",
];
const PROTOCOLS: [Protocol; 4] = [Protocol::Udp, Protocol::Tcp, Protocol::Tls, Protocol::Udp];

/// `*`, `?`, `[ab]` and letters, by recursion.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => glob(rest, text) || !text.is_empty() && glob(pattern, &text[1..]),
        ([b'?', rest @ ..], [_, text @ ..]) => glob(rest, text),
        ([b'[', one, other, b']', rest @ ..], [octet, text @ ..]) => {
            (octet == one || octet == other) && glob(rest, text)
        }
        ([octet, rest @ ..], [other, text @ ..]) => octet == other && glob(rest, text),
        _ => false,
    }
}

/// Whether a user of these characters is a number.
fn is_number(user: &str) -> bool {
    user.chars().all(|it| "12abA-".contains(it)) && user.contains(['1', '2'])
}

/// Whether a user matches a pattern. Numbers match in either case, and without separators; of names, the digits at the beginning.
fn is_user(user: &str) -> impl Fn(&String) -> bool {
    let is_number = is_number(user);
    let name = user.to_owned();
    move |pattern| {
        if is_number {
            let number = name.replace('-', "").to_uppercase();
            glob(pattern.to_uppercase().as_bytes(), number.as_bytes())
        } else {
            let behind = name.trim_start_matches(['1', '2', '-']);
            let digits = name.strip_suffix(behind).unwrap_or_default();
            let digits = digits.trim_end_matches('-');
            let name = digits.replace('-', "") + &name[digits.len()..];
            glob(pattern.as_bytes(), name.as_bytes())
        }
    }
}

fn holds<T>(list: Option<&Vec<T>>, test: impl Fn(&T) -> bool) -> bool {
    list.is_none_or(|list| list.iter().any(test))
}

fn is_match(text: &str) -> impl Fn(&String) -> bool {
    move |pattern| glob(pattern.as_bytes(), text.as_bytes())
}

fn matches(rule: &RuleDescription, request: &Request) -> bool {
    let source: IpAddr = request.source.parse().expect("an address");
    let contains = |network: &String| match network.parse::<IpNet>() {
        Ok(network) => network.contains(&source),
        Err(_) => *network == request.source,
    };
    let listener = usize::from(request.listener);
    holds(rule.method.as_ref(), |method| method == request.method)
        && holds(rule.source.as_ref(), contains)
        && holds(rule.listener.as_ref(), |it| it == LISTENERS[listener])
        && holds(rule.transport.as_ref(), |it| *it == PROTOCOLS[listener])
        && holds(rule.user.as_ref(), is_user(&request.user))
        && holds(rule.domain.as_ref(), is_match(&request.domain))
        && holds(rule.from_user.as_ref(), is_user(&request.from_user))
        && holds(rule.header.as_ref(), |header| match &header.value {
            None => !request.customers.is_empty(),
            Some(value) => request.customers.iter().any(|it| is_match(it)(value)),
        })
}

/// The name of the first rule that matches.
fn first(rules: &RuleSet, request: &Request) -> Option<String> {
    let escaped = |octet: u8| format!("%{octet:02x}");
    let user = if request.is_escaped {
        request
            .user
            .bytes()
            .map(escaped)
            .collect::<Vec<_>>()
            .concat()
    } else {
        request.user.clone()
    };
    let header = |value: &String| format!("X-Customer: {value}\r\n");
    let headers = request.customers.iter().map(header).collect::<Vec<_>>();
    Call {
        method: request.method,
        uri: &format!("sip:{user}@{}", request.domain.to_uppercase()),
        from: &format!("<sip:{}@h>;tag=1", request.from_user),
        headers: &headers.concat(),
        source: request.source,
        listener: request.listener,
        ..Call::default()
    }
    .first(rules)
    .map(str::to_owned)
}

fn pattern() -> impl Strategy<Value = String> {
    let element = prop::sample::select(vec!["a", "b", "1", "2", "*", "?", "[a1]", "[12]"]);
    prop::collection::vec(element, 1..6).prop_map(|elements| elements.concat())
}

fn patterns() -> impl Strategy<Value = Option<Vec<String>>> {
    prop::option::weighted(0.4, prop::collection::vec(pattern(), 1..4))
}

fn domains() -> impl Strategy<Value = Option<Vec<String>>> {
    let domain = prop::sample::select(vec!["a.b", "*.b", "a.*", "b", "*", "?.b", "b.[ab]"]);
    let list = prop::collection::vec(domain.prop_map(str::to_owned), 1..3);
    prop::option::weighted(0.3, list)
}

fn some_of(entries: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<String>>> {
    let entry = prop::sample::select(entries).prop_map(str::to_owned);
    prop::option::weighted(0.3, prop::collection::vec(entry, 1..3))
}

fn headers() -> impl Strategy<Value = Option<Vec<HeaderDescription>>> {
    let header = prop::option::of(pattern()).prop_map(|value| HeaderDescription {
        name: "X-Customer".to_owned(),
        value,
    });
    prop::option::weighted(0.2, prop::collection::vec(header, 1..3))
}

fn any_rule() -> impl Strategy<Value = RuleDescription> {
    let transports = prop::option::weighted(
        0.2,
        prop::collection::vec(prop::sample::select(&PROTOCOLS[..]), 1..3),
    );
    let arrival = (
        some_of(&METHODS),
        some_of(&NETWORKS),
        some_of(&LISTENERS),
        transports,
    );
    let content = (patterns(), domains(), patterns(), headers());
    (arrival, content).prop_map(
        |((method, source, listener, transport), (user, domain, from_user, header))| {
            RuleDescription {
                method,
                source,
                listener,
                transport,
                user,
                domain,
                from_user,
                header,
                ..rule("")
            }
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    (
        (
            prop::sample::select(&METHODS[..]),
            prop::sample::select(&SOURCES[..]),
            0..4_u16,
        ),
        "[ab12Ax-]{1,5}",
        prop::sample::select(vec!["a.b", "b.b", "b", "b.a", "a.c"]),
        "[ab12Ax-]{1,5}",
        prop::collection::vec("[ab12]{1,4}", 0..3),
        any::<bool>(),
    )
        .prop_map(
            |((method, source, listener), user, domain, from_user, customers, is_escaped)| {
                Request {
                    method,
                    source,
                    // No IPv6 address reaches an IPv4 listener.
                    listener: if source.contains(':') { 3 } else { listener },
                    user,
                    domain: domain.to_owned(),
                    from_user,
                    customers,
                    is_escaped,
                }
            },
        )
}

/// Compiles rules without those that are reported. Returns the names of rules that are reported as never matching, too.
fn compile_sound(mut rules: Vec<RuleDescription>) -> (RuleSet, Vec<String>) {
    let mut unreachable = Vec::new();
    loop {
        match RuleSet::new(&rules, &known(), None) {
            Ok(set) => return (set, unreachable),
            Err(mistakes) => {
                for mistake in &mistakes {
                    if matches!(
                        mistake.problem,
                        Problem::Covered(_) | Problem::BehindCatchAll(_)
                    ) {
                        unreachable.push(mistake.rule.clone());
                    } else {
                        let is_expected = matches!(mistake.problem, Problem::Contradiction { .. });
                        assert!(is_expected, "{mistake}");
                    }
                }
                rules.retain(|rule| mistakes.iter().all(|mistake| mistake.rule != rule.name));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_first_rule_is_that_of_a_naive_evaluation(
        mut rules in prop::collection::vec(any_rule(), 0..80),
        requests in prop::collection::vec(any_request(), 1..30),
    ) {
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("r{index}");
        }
        let (set, unreachable) = compile_sound(rules.clone());
        for request in requests {
            let naive = rules.iter().find(|rule| matches(rule, &request)).map(|rule| rule.name.clone());
            prop_assert!(naive.iter().all(|name| !unreachable.contains(name)), "{naive:?} {request:?}");
            prop_assert_eq!(first(&set, &request), naive);
        }
    }

    #[test]
    fn a_pattern_matches_what_a_naive_glob_matches(pattern in pattern(), users in prop::collection::vec("[ab12]{1,8}", 1..20)) {
        let rules = RuleSet::new(&[RuleDescription { user: list(&[&pattern]), ..rule("r") }], &known(), None);
        let rules = rules.expect("a rule");
        for user in users {
            let uri = format!("sip:{user}@h");
            let is_match = Call { uri: &uri, ..Call::default() }.first(&rules).is_some();
            prop_assert_eq!(is_match, is_user(&user)(&pattern), "{}", user);
        }
    }
}
