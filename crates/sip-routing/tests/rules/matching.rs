//! Which requests a condition holds for.

use crate::requests::{Call, compile, known, list, rule};
use sip_message::Message;
use sip_routing::rule::{Facts, HeaderDescription, Rule, RuleDescription, RuleSet};
use sip_transport::{Listener, Protocol};

/// Checks which of some requests a rule matches.
fn check(rule: RuleDescription, matching: &[Call<'_>], others: &[Call<'_>]) {
    let rules = compile(&[rule]);
    for call in matching {
        assert!(call.first(&rules).is_some(), "{call:?}");
    }
    for call in others {
        assert!(call.first(&rules).is_none(), "{call:?}");
    }
}

fn to_uri(uri: &str) -> Call<'_> {
    Call {
        uri,
        ..Call::default()
    }
}

fn from_source(source: &str) -> Call<'_> {
    Call {
        source,
        ..Call::default()
    }
}

fn with_headers(headers: &str) -> Call<'_> {
    Call {
        headers,
        ..Call::default()
    }
}

#[test]
fn a_rule_without_conditions_matches_every_request() {
    let calls = [to_uri("urn:service:sos"), from_source("2001:db8::1")];
    check(rule("all"), &calls, &[]);
}

#[test]
fn methods_are_compared_with_case() {
    let method = |method| Call {
        method,
        ..Call::default()
    };
    let rule = RuleDescription {
        method: list(&["INVITE", "PING"]),
        ..rule("r")
    };
    check(
        rule,
        &[method("INVITE"), method("PING")],
        &[method("invite"), method("PONG"), method("MESSAGE")],
    );
}

#[test]
fn sources_are_named_networks_networks_and_addresses() {
    let rule = RuleDescription {
        source: list(&[
            "carrier-a",
            "203.0.113.0/24",
            "192.0.2.7",
            "::ffff:10.0.0.0/104",
        ]),
        ..rule("r")
    };
    check(
        rule,
        &[
            from_source("198.51.100.127"),
            from_source("2001:db8:a:1::1"),
            from_source("203.0.113.255"),
            from_source("::ffff:203.0.113.1"),
            from_source("192.0.2.7"),
            from_source("10.255.255.255"),
        ],
        &[
            from_source("198.51.100.128"),
            from_source("2001:db8:b::1"),
            from_source("192.0.2.8"),
            from_source("11.0.0.0"),
            from_source("::"),
        ],
    );
}

#[test]
fn a_whole_family_is_a_source() {
    let rule = |network| RuleDescription {
        source: list(&[network]),
        ..rule("r")
    };
    let (v4, v6) = (from_source("255.255.255.255"), from_source("ffff::ffff"));
    check(
        rule("0.0.0.0/0"),
        std::slice::from_ref(&v4),
        std::slice::from_ref(&v6),
    );
    check(rule("::/0"), &[v6], &[v4]);
}

#[test]
fn listeners_and_transports_are_those_that_the_request_arrived_on() {
    let at = |listener| Call {
        listener,
        ..Call::default()
    };
    let listener = RuleDescription {
        listener: list(&["UDP:203.0.113.9:5060", "tls:0.0.0.0:5061"]),
        ..rule("r")
    };
    check(listener, &[at(0), at(2)], &[at(1), at(3)]);
    let transport = RuleDescription {
        transport: Some(vec![Protocol::Tcp, Protocol::Tls]),
        ..rule("r")
    };
    check(transport, &[at(1), at(2)], &[at(0), at(3)]);
}

#[test]
fn a_check_accepts_listeners_behind_a_wildcard_of_the_configuration() {
    let wildcard = [Listener {
        protocol: Protocol::Udp,
        address: "0.0.0.0:5060".parse().expect("an address"),
        prefix_length: 0,
        advertised: String::new(),
        behind_balancer: false,
    }];
    let known = sip_routing::rule::KnownNames {
        listeners: &wildcard,
        ..known()
    };
    let compiles = |listener| {
        let rule = RuleDescription {
            listener: list(&[listener]),
            ..rule("r")
        };
        RuleSet::new(&[rule], &known, None).is_ok()
    };
    assert!(compiles("udp:203.0.113.9:5060"));
    assert!(!compiles("udp:203.0.113.9:5070"));
    assert!(!compiles("udp:[2001:db8::9]:5060"));
}

#[test]
fn users_match_in_any_spelling() {
    let rule = RuleDescription {
        user: list(&["+4989*", "110", "alice", "*9[0-4]?", r"\*21\*"]),
        ..rule("r")
    };
    check(
        rule,
        &[
            to_uri("sip:+4989123@h"),
            to_uri("sip:+4989@h;user=phone"),
            to_uri("sip:+49-(89)-1@h"),
            to_uri("sip:%2B4989@h"),
            to_uri("tel:+49.89.1"),
            to_uri("sip:110;phone-context=x@h"),
            to_uri("sip:1-1-0@h"),
            to_uri("sip:%61lice@h"),
            to_uri("sip:a930@h"),
            to_uri("sip:*21*@h"),
        ],
        &[
            to_uri("sip:+498@h"),
            to_uri("sip:1100@h"),
            to_uri("sip:Alice@h"),
            to_uri("sip:alice;x=1@h"),
            to_uri("sip:a950@h"),
            to_uri("sip:a93@h"),
            to_uri("sip:*2121*@h"),
            to_uri("sip:h"),
            to_uri("urn:service:sos"),
        ],
    );
}

#[test]
fn a_uri_without_users_is_matched_as_a_whole() {
    let rule = RuleDescription {
        user: list(&["urn:service:sos*"]),
        ..rule("r")
    };
    check(
        rule,
        &[to_uri("urn:service:sos"), to_uri("URN:service:SOS.fire")],
        &[to_uri("urn:service:counseling"), to_uri("sip:sos@h")],
    );
}

#[test]
fn domains_match_without_case_and_trailing_dot_and_addresses_by_value() {
    let rule = RuleDescription {
        domain: list(&["Example.ORG", "*.example.net", "10.0.0.*", "[2001:DB8::1]"]),
        ..rule("r")
    };
    check(
        rule,
        &[
            to_uri("sip:a@EXAMPLE.org"),
            to_uri("sip:example.org.;lr"),
            to_uri("sip:a@Sip.Example.Net:5070"),
            to_uri("sip:010.0.0.9"),
            to_uri("sip:[2001:db8:0::1]"),
        ],
        &[
            to_uri("sip:a@example.net"),
            to_uri("sip:a@example.org.evil"),
            to_uri("sip:10.0.1.9"),
            to_uri("tel:+1"),
        ],
    );
}

#[test]
fn each_part_is_compared_with_its_own_condition() {
    let call = Call {
        uri: "sip:u@d",
        from: "\"F\" <sip:fu@fd>;tag=1",
        to: "sip:tu@td",
        ..Call::default()
    };
    let set = |place: usize, value: &str| {
        let mut rule = rule("r");
        let conditions = [
            &mut rule.user,
            &mut rule.domain,
            &mut rule.from_user,
            &mut rule.from_domain,
            &mut rule.to_user,
            &mut rule.to_domain,
        ];
        for (index, condition) in conditions.into_iter().enumerate() {
            if index == place {
                *condition = list(&[value]);
            }
        }
        compile(&[rule])
    };
    let values = ["u", "d", "fu", "fd", "tu", "td"];
    for place in 0..6 {
        for (index, value) in values.iter().enumerate() {
            let is_match = call.first(&set(place, value)).is_some();
            assert_eq!(is_match, place == index, "{place} {value}");
        }
    }
}

#[test]
fn headers_match_by_any_of_their_names_and_values() {
    let header = |name: &str, value: Option<&str>| HeaderDescription {
        name: name.to_owned(),
        value: value.map(str::to_owned),
    };
    let of = |headers: Vec<HeaderDescription>| RuleDescription {
        header: Some(headers),
        ..rule("r")
    };
    check(
        of(vec![
            header("X-Customer", Some("gold*")),
            header("supported", Some("100rel")),
        ]),
        &[
            with_headers("x-customer: golden\r\n"),
            with_headers("X-Customer: iron\r\nX-CUSTOMER:gold\r\n"),
            with_headers("k: timer, 100rel\r\n"),
        ],
        &[
            with_headers(""),
            with_headers("X-Customer: Gold\r\n"),
            with_headers("X-Customers: gold\r\n"),
            with_headers("Supported: 100relx\r\n"),
        ],
    );
    check(
        of(vec![header("Allow-Events", None)]),
        &[
            with_headers("u: dialog\r\n"),
            with_headers("allow-events:\r\n"),
        ],
        &[with_headers("Event: dialog\r\n")],
    );
    check(
        of(vec![header("Supported", None)]),
        &[with_headers("Supported:\r\n")],
        &[],
    );
}

#[test]
fn all_conditions_of_a_rule_must_hold() {
    let rule = RuleDescription {
        method: list(&["INVITE"]),
        source: list(&["carrier-a"]),
        user: list(&["0900*"]),
        ..rule("r")
    };
    let call = Call {
        source: "198.51.100.1",
        uri: "sip:0900123@h",
        ..Call::default()
    };
    let others = [
        Call {
            method: "MESSAGE",
            ..call.clone()
        },
        Call {
            source: "192.0.2.1",
            ..call.clone()
        },
        Call {
            uri: "sip:0800123@h",
            ..call.clone()
        },
    ];
    check(rule, &[call], &others);
}

#[test]
fn the_first_of_several_matching_rules_decides() {
    let with_user = |name, user| RuleDescription {
        user: list(&[user]),
        ..rule(name)
    };
    let rules = compile(&[
        with_user("emergency", "110"),
        with_user("short", "1*"),
        rule("rest"),
    ]);
    for (uri, name) in [
        ("sip:110@h", "emergency"),
        ("sip:115@h", "short"),
        ("sip:210@h", "rest"),
    ] {
        assert_eq!(to_uri(uri).first(&rules), Some(name));
    }
    assert_eq!(to_uri("sip:110@h").first(&compile(&[])), None);
}

#[test]
fn more_rules_than_a_word_has_bits_are_tested_in_order() {
    let rules: Vec<_> = (0..200)
        .map(|number| RuleDescription {
            user: list(&[&format!("{number:03}*")]),
            ..rule(&number.to_string())
        })
        .collect();
    let rules = compile(&rules);
    for number in [0, 63, 64, 127, 128, 199] {
        let uri = format!("sip:{number:03}5@h");
        assert_eq!(to_uri(&uri).first(&rules), Some(&*number.to_string()));
    }
    assert_eq!(to_uri("sip:200@h").first(&rules), None);
}

#[test]
fn explain_names_the_condition_that_failed_and_the_value() {
    let rules = compile(&[
        RuleDescription {
            source: list(&["carrier-a"]),
            ..rule("carrier")
        },
        RuleDescription {
            method: list(&["INVITE"]),
            listener: list(&["tls:203.0.113.9:5061"]),
            ..rule("secure")
        },
        RuleDescription {
            from_user: list(&["+49*"]),
            ..rule("national")
        },
        RuleDescription {
            header: Some(vec![HeaderDescription {
                name: "X-Customer".to_owned(),
                value: None,
            }]),
            ..rule("customer")
        },
        RuleDescription {
            domain: list(&["example.org"]),
            ..rule("ours")
        },
        rule("rest"),
    ]);
    let call = Call {
        from: "<sip:%2B1-201@h>;tag=1",
        ..Call::default()
    };
    let text = call.text();
    let message = Message::parse(text.as_bytes()).expect("a message");
    let steps = rules.explain(&call.facts(&message));
    let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "carrier: source is \"192.0.2.1\"",
            "secure: listener is \"udp:203.0.113.9:5060\"",
            "national: from_user is \"+1201\"",
            "customer: the request has no header",
            "ours: matches",
        ]
    );
    assert!(rules.iter().all(|rule| rule.matches() == 0));
}

#[test]
fn a_request_that_did_not_arrive_has_no_source_listener_transport_or_header_field() {
    let every = |name: &str| match name {
        "source" => RuleDescription {
            source: list(&["0.0.0.0/0", "::/0"]),
            ..rule(name)
        },
        "listener" => RuleDescription {
            listener: list(&["udp:203.0.113.9:5060"]),
            ..rule(name)
        },
        "transport" => RuleDescription {
            transport: Some(Protocol::ALL.to_vec()),
            ..rule(name)
        },
        _ => RuleDescription {
            header: Some(vec![HeaderDescription {
                name: "Call-ID".to_owned(),
                value: None,
            }]),
            ..rule(name)
        },
    };
    let names = ["source", "listener", "transport", "header"];
    let mut rules = names.map(every).to_vec();
    rules.push(RuleDescription {
        user: list(&["bob"]),
        ..rule("bob")
    });
    let rules = compile(&rules);
    let text = Call::default().text();
    let request = Message::parse(text.as_bytes()).expect("a message");
    let facts = Facts {
        request: &request,
        arrival: None,
    };
    assert_eq!(rules.first(&facts).map(Rule::name), Some("bob"));
    let steps: Vec<String> = rules
        .explain(&facts)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        steps,
        [
            "source: the request has no source",
            "listener: the request has no listener",
            "transport: the request has no transport",
            "header: the request has no header",
            "bob: matches",
        ]
    );
}
