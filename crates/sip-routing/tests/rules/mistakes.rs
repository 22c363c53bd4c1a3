//! What `RuleSet::new` reports instead of compiling.

use crate::requests::{known, list, rule};
use sip_routing::rule::{
    FieldDescription, HeaderDescription, KnownNames, MAX_RULES, PatternProblem, Problem,
    RefusalDescription, RuleDescription, RuleSet,
};
use sip_transport::Protocol;

/// The problems that are reported, with the names of the rules.
fn mistakes(rules: &[RuleDescription]) -> Vec<(String, Problem)> {
    match RuleSet::new(rules, &known(), None) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes
            .into_iter()
            .map(|it| (it.rule, it.problem))
            .collect(),
    }
}

/// Checks that a rule has exactly one problem.
fn check(rule: RuleDescription, expected: Problem) {
    assert_eq!(
        mistakes(std::slice::from_ref(&rule)),
        [(rule.name, expected)]
    );
}

fn refusing(status: u16) -> RuleDescription {
    RuleDescription {
        local: false,
        refuse: Some(RefusalDescription {
            status,
            ..RefusalDescription::default()
        }),
        ..rule("r")
    }
}

fn field(name: &str, value: &str) -> FieldDescription {
    FieldDescription {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

fn unknown(key: &'static str, name: &str, known: &[&str]) -> Problem {
    Problem::Unknown {
        key,
        name: name.to_owned(),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn a_mistake_names_the_rule_and_what_to_do() {
    let mut broken = refusing(200);
    broken.group = Some("carrier".to_owned());
    let reported = RuleSet::new(&[broken], &known(), None).expect_err("mistakes");
    let shown: Vec<String> = reported.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "rule \"r\": the rule has 2 decisions (refuse, group); keep one of them",
            "rule \"r\": refuse.status is 200; it must be from 300 to 699",
        ]
    );
    let mut other = rule("other");
    other.local = false;
    other.group = Some("carrier".to_owned());
    let reported = RuleSet::new(&[other], &known(), None).expect_err("mistakes");
    assert_eq!(
        reported[0].to_string(),
        "rule \"other\": group: \"carrier\" is unknown; known are: carriers, pbx"
    );
}

#[test]
fn names_are_required_and_unique() {
    let one = |name, user| RuleDescription {
        user: list(&[user]),
        ..rule(name)
    };
    assert_eq!(
        mistakes(&[one("a", "1"), one("", "2"), one("a", "3")]),
        [
            ("#2".to_owned(), Problem::NoName),
            ("a".to_owned(), Problem::DuplicateName)
        ]
    );
}

#[test]
fn a_rule_has_exactly_one_decision() {
    let mut none = rule("r");
    none.local = false;
    check(none, Problem::NoDecision);
    let mut two = rule("r");
    two.prefixes = Some("retail".to_owned());
    check(two, Problem::SeveralDecisions(vec!["prefixes", "local"]));
}

#[test]
fn changes_to_requests_that_are_not_forwarded_are_reported() {
    let mut redirecting = rule("r");
    redirecting.local = false;
    redirecting.redirect = list(&["sip:1@h"]);
    for (mut rule, does) in [(refusing(403), "refuses"), (redirecting, "redirects")] {
        rule.strip = 1;
        rule.prefix = Some("+".to_owned());
        rule.add_header = vec![field("X-A", "1")];
        rule.remove_header = vec!["X-B".to_owned()];
        rule.replace_header = vec![field("X-C", "1")];
        let keys = [
            "strip",
            "prefix",
            "add_header",
            "remove_header",
            "replace_header",
        ];
        let expected = keys.map(|key| ("r".to_owned(), Problem::UselessEdit { key, does }));
        assert_eq!(mistakes(&[rule]), expected);
    }
}

#[test]
fn unknown_names_are_reported_with_the_known_ones() {
    let with = |change: fn(&mut RuleDescription)| {
        let mut rule = rule("r");
        rule.local = false;
        change(&mut rule);
        rule
    };
    for (rule, expected) in [
        (
            with(|it| it.group = Some("x".to_owned())),
            unknown("group", "x", &["carriers", "pbx"]),
        ),
        (
            with(|it| it.prefixes = Some("x".to_owned())),
            unknown("prefixes", "x", &["retail"]),
        ),
        (
            with(|it| (it.local, it.limit) = (true, Some("x".to_owned()))),
            unknown("limit", "x", &["trunk"]),
        ),
        (
            with(|it| (it.local, it.source) = (true, list(&["carrier-b"]))),
            unknown("source", "carrier-b", &["carrier-a"]),
        ),
        (
            with(|it| (it.local, it.listener) = (true, list(&["udp:203.0.113.8:5060"]))),
            unknown(
                "listener",
                "udp:203.0.113.8:5060",
                &[
                    "udp:203.0.113.9:5060",
                    "tcp:203.0.113.9:5060",
                    "tls:203.0.113.9:5061",
                    "udp:[2001:db8::9]:5060",
                ],
            ),
        ),
    ] {
        check(rule, expected);
    }
}

#[test]
fn only_statuses_that_a_rule_can_give_are_accepted() {
    for status in [0, 100, 200, 299, 700, u16::MAX] {
        check(refusing(status), Problem::Status(status));
    }
    for status in [300, 302, 403, 404, 480, 503, 603, 699] {
        assert_eq!(mistakes(&[refusing(status)]), []);
    }
    for status in [401, 407, 420, 421, 422, 423] {
        let found = mistakes(&[refusing(status)]);
        assert!(
            matches!(found[..], [(_, Problem::StatusNeedsField { .. })]),
            "{found:?}"
        );
    }
    let mut with_line_end = refusing(403);
    let reason = "No\r\nVia: x".to_owned();
    if let Some(refusal) = &mut with_line_end.refuse {
        refusal.reason = Some(reason.clone());
    }
    let expected = Problem::Text {
        key: "refuse.reason",
        value: reason,
        most: 128,
    };
    check(with_line_end, expected);
}

#[test]
fn header_fields_that_make_the_message_work_are_protected() {
    for name in [
        "Via",
        "v",
        "Route",
        "record-route",
        "Max-Forwards",
        "Call-ID",
        "i",
        "CSeq",
        "From",
        "t",
        "Contact",
        "Content-Length",
        "l",
        "Content-Type",
        "e",
        "Authorization",
        "Require",
        "Session-Expires",
        "RAck",
    ] {
        let mut rules = [rule("r"), rule("r"), rule("r")];
        rules[0].remove_header = vec![name.to_owned()];
        rules[1].add_header = vec![field(name, "x")];
        rules[2].replace_header = vec![field(name, "x")];
        for rule in rules {
            let found = mistakes(&[rule]);
            assert!(
                matches!(found[..], [(_, Problem::ProtectedHeader { .. })]),
                "{name}: {found:?}"
            );
        }
    }
    let mut allowed = rule("r");
    allowed.remove_header = ["X-Internal", "P-Asserted-Identity", "Diversion"]
        .map(str::to_owned)
        .into();
    allowed.add_header = vec![field("Subject", "from a trunk"), field("X-Internal", "1")];
    assert_eq!(mistakes(&[allowed]), []);
}

#[test]
fn what_would_break_a_header_is_refused() {
    let with = |name: &str, value: &str| {
        let mut rule = rule("r");
        rule.add_header = vec![field(name, value)];
        rule
    };
    for value in ["", " ", "a\r\nVia: x", "a\nb", "a\0b", &"x".repeat(1025)] {
        let expected = Problem::Text {
            key: "add_header",
            value: value.to_owned(),
            most: 1024,
        };
        check(with("X-A", value), expected);
    }
    for name in ["", "X A", "X:", "X\r\nVia"] {
        let expected = Problem::HeaderName {
            key: "add_header",
            name: name.to_owned(),
        };
        check(with(name, "x"), expected);
    }
    let mut twice = rule("r");
    twice.remove_header = vec!["X-A".to_owned()];
    twice.replace_header = vec![field("x-a", "1")];
    let expected = Problem::RepeatedHeader {
        key: "replace_header",
        name: "x-a".to_owned(),
    };
    check(twice, expected);
    let mut prefix = rule("r");
    prefix.prefix = Some("4@9".to_owned());
    check(prefix, Problem::Prefix("4@9".to_owned()));
}

#[test]
fn conditions_that_never_hold_are_reported() {
    let never = |change: fn(&mut RuleDescription)| {
        let mut rule = rule("r");
        change(&mut rule);
        rule
    };
    check(
        never(|it| it.method = list(&["INVITE", "ACK"])),
        Problem::FollowingMethod("ACK".to_owned()),
    );
    check(
        never(|it| it.method = list(&["IN VITE"])),
        Problem::NotMethod("IN VITE".to_owned()),
    );
    check(
        never(|it| it.user = list(&[])),
        Problem::EmptyList { key: "user" },
    );
    check(
        never(|it| it.to_user = list(&["ok", "sip:bob"])),
        Problem::Pattern {
            key: "to_user",
            pattern: "sip:bob".to_owned(),
            problem: PatternProblem::Scheme,
        },
    );
    check(
        never(|it| it.source = list(&["192.0.2.1/24"])),
        Problem::HostBits {
            address: "192.0.2.1".to_owned(),
            network: "192.0.2.0/24".to_owned(),
        },
    );
    for contradiction in [
        never(|it| {
            it.listener = list(&["udp:203.0.113.9:5060"]);
            it.transport = Some(vec![Protocol::Tls, Protocol::Tcp]);
        }),
        never(|it| {
            it.listener = list(&["udp:203.0.113.9:5060"]);
            it.source = list(&["2001:db8::/32"]);
        }),
    ] {
        let found = mistakes(&[contradiction]);
        assert!(
            matches!(found[..], [(_, Problem::Contradiction { .. })]),
            "{found:?}"
        );
    }
    let mut header = rule("r");
    header.header = Some(vec![HeaderDescription {
        name: "X A".to_owned(),
        value: None,
    }]);
    let expected = Problem::HeaderName {
        key: "header",
        name: "X A".to_owned(),
    };
    check(header, expected);
}

#[test]
fn uris_of_decisions_are_checked() {
    for (redirect, stateless) in [
        ("http://example.org", "tel:+1"),
        ("sip:", "next.example.net"),
    ] {
        let mut rule = rule("r");
        rule.local = false;
        let mut other = rule.clone();
        rule.redirect = list(&["sip:ok@h", redirect]);
        other.stateless = Some(stateless.to_owned());
        for rule in [rule, other] {
            let found = mistakes(&[rule]);
            assert!(matches!(found[..], [(_, Problem::Uri { .. })]), "{found:?}");
        }
    }
}

/// Checks whether the second of two rules is reported as never matching.
fn check_covered(rules: &[RuleDescription; 2], is_covered: bool) {
    let expected = [("later".to_owned(), Problem::Covered("earlier".to_owned()))];
    let expected = if is_covered { &expected[..] } else { &[] };
    assert_eq!(mistakes(rules), expected, "{rules:?}");
}

#[test]
fn a_rule_behind_a_wider_one_is_reported() {
    let users = |name, users: &[&str]| RuleDescription {
        user: list(users),
        ..rule(name)
    };
    for (earlier, later, is_covered) in [
        (&["49*"][..], &["4989*", "49"][..], true),
        (&["49*"], &["4989*", "48"], false),
        (&["48*", "49*"], &["49*"], true),
        (&["4[0-9]*"], &["49"], true),
        (&["4[0-9]*"], &["49*"], false),
        (&["4?9"], &["4?9", "419"], true),
        (&["4*"], &["4?9"], true),
        (&["*"], &["?"], true),
        (&["4?9"], &["4??"], false),
        (&["+49"], &["+4-9"], true),
    ] {
        check_covered(
            &[users("earlier", earlier), users("later", later)],
            is_covered,
        );
    }
    let sources = |name, sources: &[&str]| RuleDescription {
        source: list(sources),
        ..rule(name)
    };
    for (earlier, later, is_covered) in [
        (
            &["192.0.2.0/25", "192.0.2.128/25"][..],
            &["192.0.2.0/24"][..],
            true,
        ),
        (&["carrier-a"], &["198.51.100.7", "2001:db8:a::7"], true),
        (&["0.0.0.0/0"], &["carrier-a"], false),
        (&["0.0.0.0/0", "::/0"], &["carrier-a"], true),
    ] {
        check_covered(
            &[sources("earlier", earlier), sources("later", later)],
            is_covered,
        );
    }
}

#[test]
fn a_network_that_is_empty_for_now_is_no_mistake() {
    let known = KnownNames {
        networks: &[("ours", &[]), ("theirs", &[])],
        ..known()
    };
    let from = |name, network| RuleDescription {
        source: list(&[network]),
        ..rule(name)
    };
    let rules = [from("a", "ours"), from("b", "theirs")];
    assert!(RuleSet::new(&rules, &known, None).is_ok());
}

#[test]
fn a_rule_is_covered_only_if_every_condition_is() {
    let narrow = RuleDescription {
        method: list(&["INVITE"]),
        domain: list(&["a.example.org"]),
        header: Some(vec![HeaderDescription {
            name: "s".to_owned(),
            value: Some("gold".to_owned()),
        }]),
        ..rule("later")
    };
    let wide = RuleDescription {
        method: list(&["INVITE", "MESSAGE"]),
        domain: list(&["*.Example.org"]),
        header: Some(vec![HeaderDescription {
            name: "Subject".to_owned(),
            value: None,
        }]),
        ..rule("earlier")
    };
    check_covered(&[wide.clone(), narrow.clone()], true);
    let mut other = wide.clone();
    other.method = list(&["MESSAGE"]);
    check_covered(&[other, narrow.clone()], false);
    let mut other = wide.clone();
    other.from_user = list(&["*"]);
    check_covered(&[other, narrow.clone()], false);
    let mut other = narrow.clone();
    other.header = None;
    check_covered(&[wide, other], false);
}

#[test]
fn rules_behind_a_catch_all_are_reported() {
    let behind = RuleDescription {
        user: list(&["1"]),
        ..rule("b")
    };
    let expected = |rule: &str| (rule.to_owned(), Problem::BehindCatchAll("all".to_owned()));
    assert_eq!(
        mistakes(&[rule("all"), behind, rule("c")]),
        [expected("b"), expected("c")]
    );
}

#[test]
fn the_number_of_rules_and_entries_is_bounded() {
    let numbered = |number: usize| RuleDescription {
        user: list(&[&number.to_string()]),
        ..rule(&number.to_string())
    };
    let rules: Vec<_> = (0..=MAX_RULES).map(numbered).collect();
    assert_eq!(mistakes(&rules[..MAX_RULES]), []);
    assert_eq!(
        mistakes(&rules),
        [(MAX_RULES.to_string(), Problem::TooManyRules)]
    );
    let mut long = rule("r");
    long.user = Some((0..10_001).map(|number| number.to_string()).collect());
    check(
        long,
        Problem::TooManyEntries {
            key: "user",
            count: 10_001,
            most: 10_000,
        },
    );
}
