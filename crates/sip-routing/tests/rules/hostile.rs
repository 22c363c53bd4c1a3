//! Requests that mean harm: nothing panics, nothing takes long.

use crate::requests::{Call, compile, list, rule};
use proptest::prelude::*;
use sip_message::Message;
use sip_routing::rule::{Arrival, Facts, HeaderDescription, Rule, RuleDescription, RuleSet};
use sip_transport::{ListenerId, Protocol};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Rules with every condition.
static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let header = |name: &str, value: &str| HeaderDescription {
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    compile(&[
        RuleDescription {
            user: list(&["*a*a*a*b", "?*[0-9]*\\?"]),
            ..rule("user")
        },
        RuleDescription {
            domain: list(&["*.*.*.example", "10.*"]),
            from_user: list(&["+49*"]),
            ..rule("domain")
        },
        RuleDescription {
            header: Some(vec![header("X-A", "*a*b*c"), header("Supported", "*")]),
            ..rule("header")
        },
        RuleDescription {
            method: list(&["INVITE"]),
            to_user: list(&["*x*"]),
            from_domain: list(&["*x*"]),
            to_domain: list(&["*x*"]),
            ..rule("to")
        },
    ])
});

fn first(request: &[u8], listener: u16) -> Option<&'static str> {
    let message = Message::parse(request).ok()?;
    let facts = Facts {
        request: &message,
        arrival: Some(Arrival {
            source: "192.0.2.1".parse().expect("an address"),
            listener: ListenerId(listener),
            protocol: Protocol::Wss,
        }),
    };
    let steps = RULES.explain(&facts);
    let first = RULES.first(&facts).map(Rule::name);
    let last = steps.last().map(ToString::to_string);
    assert_eq!(
        first.is_some(),
        last.is_some_and(|it| it.ends_with(": matches"))
    );
    first
}

#[test]
fn a_long_user_does_not_make_patterns_slow() {
    let patterns = [
        "*a*a*a*b".to_owned(),
        "*".to_owned() + &"a?".repeat(60) + "b",
        "a*".repeat(60) + "b",
        "*".to_owned() + &"a".repeat(100) + "b*",
        "?".repeat(120) + "*b",
    ];
    for pattern in patterns {
        let rules = compile(&[RuleDescription {
            user: list(&[&pattern]),
            ..rule("r")
        }]);
        for user in [
            "a".repeat(60_000),
            "%61".repeat(20_000),
            "1-".repeat(30_000),
        ] {
            let uri = format!("sip:{user}@h");
            let call = Call {
                uri: &uri,
                ..Call::default()
            };
            let start = Instant::now();
            assert_eq!(call.first(&rules), None);
            // Linear work takes milliseconds. Each star that starts again multiplies it by the length.
            assert!(start.elapsed() < Duration::from_secs(5), "{pattern}");
        }
    }
}

#[test]
fn a_listener_that_no_rule_names_is_no_problem() {
    let call = Call {
        uri: "sip:aaab@h",
        ..Call::default()
    };
    assert_eq!(first(call.text().as_bytes(), u16::MAX), Some("user"));
}

proptest! {
    #[test]
    fn no_request_causes_a_panic(
        uri in "(sip|sips|tel|urn):[ -~]{0,20}(@[a-z0-9.:\\[\\]-]{0,12})?",
        from in "[ -~]{0,40}",
        name in "(X-A|Supported|k|From|To|[!-~]{1,5})",
        value in "[ -~\t]{0,20}(\r\n [a-c]{1,3})?",
        listener in 0..6_u16,
    ) {
        let text = format!("INVITE {uri} SIP/2.0\r\nFrom: {from}\r\nTo: {from}\r\n{name}: {value}\r\n\r\n");
        first(text.as_bytes(), listener);
    }

    #[test]
    fn no_damaged_request_causes_a_panic(
        changes in prop::collection::vec((0..400_usize, any::<u8>()), 0..12),
        length in 0..400_usize,
    ) {
        let mut bytes = Call {
            uri: "sip:%61+49-(8)9@010.0.0.1:5060;user=phone",
            headers: "X-A: abc\r\nk: 100rel, timer\r\n",
            ..Call::default()
        }
        .text()
        .into_bytes();
        for (place, octet) in changes {
            if let Some(byte) = bytes.get_mut(place) {
                *byte = octet;
            }
        }
        bytes.truncate(length.max(40));
        first(&bytes, 0);
    }
}
