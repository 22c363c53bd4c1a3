//! What is wrong with networks, gateways, groups, limits and rules, and what valid ones mean.
use super::{mistakes, parse};
use crate::config::{self, OwnListener, PolicyError, Routes};
use sip_message::Message;
use sip_routing::Policy;
use sip_routing::gateway::{
    Algorithm, AllInactive, CalledNumber, CallerIdentity, CallerSource, IdentityHeader, NoRates,
    Rewriting, TriedSet,
};
use sip_routing::limit::{Call, Limit, Scope};
use sip_routing::numbering::{NumberFormat, NumberingPlan, PlainNumbers};
use sip_routing::rule::{Arrival, Decision, Facts};
use sip_transport::{ListenerId, Protocol, Time};
use std::sync::Arc;
use std::time::Duration;

const GATEWAY: &str = "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\n";

/// Files with one mistake and its message.
const WRONG: &[(&str, &str)] = &[
    (
        "[[network]]\nname = \"\"\naddresses = [\"192.0.2.7\"]",
        "2:8: `network[0].name`: a network needs a name",
    ),
    (
        "[[network]]\nname = \"192.0.2.8\"\naddresses = [\"192.0.2.7\"]",
        "2:8: `network[0].name = \"192.0.2.8\"`: an address cannot be a name",
    ),
    (
        "[[network]]\nname = \"a\"\naddresses = []",
        "3:13: `network[0].addresses`: list at least one network or address",
    ),
    (
        "[[network]]\nname = \"a\"\naddresses = [\"192.0.2.7/24\"]",
        "3:14: `network[0].addresses[0] = \"192.0.2.7/24\"`: must be a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\" \
         (the network that contains 192.0.2.7 is \"192.0.2.0/24\")",
    ),
    (
        "[[gateway]]\nname = \"a b\"\ndestination = \"sip:192.0.2.10\"",
        "2:8: gateway `a b`: a name has 1 to 128 visible ASCII characters, without spaces",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"192.0.2.10:5060\"",
        "3:15: `gateway[0].destination = \"192.0.2.10:5060\"`: must be a SIP URI, such as \"sip:192.0.2.9:5060\" or \
         \"sip:trunk.example.net;transport=tcp\" (add the scheme: \"sip:192.0.2.10:5060\")",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nusername = \"trunk\"",
        "4:12: `gateway[0].username`: requires `password`",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nregister_contact = \"a\"",
        "4:20: `gateway[0].register_contact`: requires `register`",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nusername = \"a\\\"b\"\npassword = \"p\"",
        "4:12: `gateway[0].username = \"a\\\"b\"`: must be 1 to 128 characters without quotes, backslashes and control characters",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nregister = \"4930@carrier.example\"",
        "4:12: `gateway[0].register = \"4930@carrier.example\"`: must be a SIP URI with a user and without parameters, such as \
         \"sip:4930123@trunk.example.net\" (add the scheme: \"sip:4930@carrier.example\")",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nusername = \"a\"\npassword = { fiel = \"x\" }",
        "5:12: `gateway[0].password`: must be a password, or a table with the file that contains it, such as \
         { file = \"/etc/tandem/carrier.secret\" } (unknown key `fiel`: did you mean `file`?)",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nmax_calls = 0",
        "4:13: `gateway[0].max_calls = 0`: must be a whole number from 1 to 4294967295",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nprobe_timeout = \"40s\"",
        "4:17: gateway `a`: the probe timeout is 40s; allowed: 100ms to 30s",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nprobe_interval = \"5s\"",
        "4:18: gateway `a`: the probe timeout is 10s; allowed: 100ms to 5s",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nfailover_codes = \"5xx\"",
        "4:18: `gateway[0].failover_codes = \"5xx\"`: must be response codes and ranges, such as \"408, 500-599\" (\"5xx\" is not a final \
         response code or range)",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nfailover_codes = \"600\"",
        "4:18: gateway `a` would fail over on 600; allowed: 300 to 599. A 2xx ends the search, and a 6xx speaks for the callee everywhere",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nburst = 5",
        "4:9: `gateway[0].burst`: requires `calls_per_second`",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\ncalls_per_second = \"5\"",
        "4:20: `gateway[0].calls_per_second = \"5\"`: must be a number from 0.001 to 100000 (remove the quotes)",
    ),
    (
        "[numbering]\ncountry_code = \"+49\"",
        "2:16: `numbering.country_code = \"+49\"`: must be a country code of one to three digits, such as \"49\" (write \"49\")",
    ),
    (
        "[numbering]\nnational_prefix = \"0a\"",
        "2:19: `numbering.national_prefix = \"0a\"`: must be up to eight digits, such as \"00\"",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\ncalled_format = \"national\"",
        "4:17: gateway `a`: `called_format` requires `country_code` in [numbering]",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\ncaller_number = \"+4930\"",
        "4:1: unknown key `caller_number` in [[gateway]]: it requires `identity = \"asserted\"` or `identity = \"preferred\"` or `identity = \"remote_party_id\"`",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nidentity = \"asserted\"\ncaller_number = \"030123\"",
        "5:17: gateway `a`: the number of the trunk is \"030123\"; write it in the international form, such as +4930123400",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nidentity = \"asserted\"\ncaller = \"trunk\"",
        "5:10: gateway `a`: `caller = \"trunk\"` requires `caller_number`",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nidentity = \"asserted\"\ncaller_domain = \"sip:x\"",
        "5:17: gateway `a`: the domain of the caller is \"sip:x\"; write a domain name or an address",
    ),
    (
        "[[gateway]]\nname = \"a\"\ndestination = \"sip:192.0.2.10\"\nprefix = \"9 9\"",
        "4:10: gateway `a`: the prefix is \"9 9\"; allowed: up to 32 letters, digits, + and *",
    ),
    (
        "[[listen]]\naddress = \"127.0.0.1:5070\"\n[[gateway]]\nname = \"a\"\ndestination = \"sip:127.0.0.1:5070\"",
        "5:15: gateway `a`: 127.0.0.1:5070 is a listener of this server, so that calls would come back; name another server",
    ),
    (
        "[[group]]\nname = \"g\"\nmembers = []",
        "3:11: gateway group `g` has no members; allowed: 1 to 64",
    ),
    (
        "[[gateway]]\nname = \"berlin-1\"\ndestination = \"sip:192.0.2.10\"\n[[group]]\nname = \"g\"\nmembers = [\"berlin1\"]",
        "6:11: gateway group `g` names `berlin1`, which is not declared; declare the gateway, or remove the member (did you mean `berlin-1`?)",
    ),
    (
        "[[group]]\nname = \"g\"\nmembers = [{ gateway = \"a\", wieght = 2 }]",
        "3:12: `group[0].members[0] = { gateway = \"a\", wieght = 2 }`: must be the name of a gateway, or a table such as { gateway = \
         \"berlin-1\", weight = 2, priority = 0 } (unknown key `wieght`: did you mean `weight`?)",
    ),
    (
        "[[limit]]\nname = \"overall\"\nmax_calls = 1",
        "2:8: the name \"overall\" is reserved for the limit of all calls; choose another name",
    ),
    (
        "[[limit]]\nname = \"a\"\nburst = 5",
        "3:9: limit \"a\" has a burst but no calls per second; set both, or remove the burst",
    ),
    (
        "[[limit]]\nname = \"a\"\ncalls_per_second = -1",
        "3:20: `limit[0].calls_per_second = -1`: must be a number from 0 to 100000",
    ),
    (
        "[[limit]]\nname = \"a\"\ncalls_per_second = 0.0001",
        "3:20: limit \"a\": 0.0001 calls per second is not possible; allowed are 0 (no calls) and 0.001 to 100000",
    ),
    (
        "[[limit]]\nname = \"a\"\nnetworks = [\"carrier\"]\nmax_calls = 1",
        "3:12: `limit[0].networks`: \"carrier\" is unknown: it must be a network or an address, such as \"192.0.2.0/24\", or the name of a \
         [[network]]",
    ),
    (
        "[[limit]]\nname = \"a\"\nmax_calls = 1\n[[limit]]\nname = \"a\"\nmax_calls = 2",
        "5:8: two limits have the name \"a\"; rename one of them",
    ),
    (
        "[call_limits]\nburst = 5",
        "1:1: limit \"overall\" has a burst but no calls per second; set both, or remove the burst",
    ),
    (
        "[[rule]]\nname = \"a\"\nuser = [\"49[\"]",
        "3:8: rule \"a\": user: the pattern \"49[\" has a [ without ]; write \\[ for the character itself",
    ),
    (
        "[[rule]]\nname = \"a\"\naction = \"group\"\ngroup = \"berlin\"",
        "4:9: rule \"a\": group: \"berlin\" is unknown; the configuration has none",
    ),
    (
        "[[rule]]\nname = \"a\"\naction = \"group\"",
        "3:10: `rule[0].group` is missing: `action = \"group\"` requires it: a single-line string",
    ),
    (
        "[[rule]]\nname = \"a\"\ngroup = \"berlin\"",
        "3:1: unknown key `group` in [[rule]]: it requires `action = \"group\"` or `action = \"balance\"`",
    ),
    (
        "[[rule]]\nname = \"a\"\naction = \"prefixes\"\nprefixes = \"retail\"",
        "4:12: rule \"a\": prefixes: \"retail\" is unknown; the configuration has none",
    ),
    (
        "[[rule]]\nname = \"a\"\nsource = [\"carrier\"]",
        "3:10: rule \"a\": source: \"carrier\" is unknown; the configuration has none",
    ),
    (
        "[[rule]]\nname = \"all\"\n[[rule]]\nname = \"late\"\nmethod = [\"INVITE\"]",
        "4:8: rule \"late\": the rule never matches, because \"all\" above it matches every request",
    ),
    (
        "[[rule]]\nname = \"a\"\nuser = [\"1\"]\n[[rule]]\nname = \"a\"\nuser = [\"2\"]",
        "5:8: rule \"a\": another rule has the same name",
    ),
    (
        "[[rule]]\nname = \"a\"\nheader = [\"X Y: b\"]",
        "3:10: rule \"a\": header: \"X Y\" is not the name of a header field",
    ),
    (
        "[[rule]]\nname = \"a\"\nadd_header = [\"X-A\"]",
        "3:15: `rule[0].add_header[0] = \"X-A\"`: must be a header field, such as \"P-Charge-Info: <sip:+4930123@example.org>\" (a colon \
         after the name is missing)",
    ),
    (
        "[[rule]]\nname = \"a\"\naction = \"refuse\"\nstatus = 200",
        "4:10: `rule[0].status = 200`: must be a whole number from 300 to 699",
    ),
    (
        "[[rule]]\nname = \"a\"\naction = \"refuse\"\nstatus = 407",
        "4:10: rule \"a\": refuse.status is 407, which needs the header field Proxy-Authenticate; use authenticate = \"digest\"",
    ),
    (
        "[prefixes]\nsource = \"file\"",
        "2:10: `prefixes.file` is missing: `source = \"file\"` requires it: a file path, such as \"/etc/tandem/chain.pem\"",
    ),
    (
        "[prefixes]\nsource = \"database\"\ntable = \"a.b.c\"",
        "3:9: `prefixes.table = \"a.b.c\"`: must be the name of a table or view, such as \"prefix_route\" or \"routing.prefix_route\"",
    ),
];

#[test]
fn each_mistake_is_reported_with_its_line_and_what_is_allowed() {
    let wrong = WRONG.iter().filter_map(|(text, expected)| {
        let found = mistakes(text);
        (found != [*expected]).then(|| format!("for\n{text}\n{found:#?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [] as [&str; 0]);
}

#[test]
fn all_mistakes_of_all_gateways_groups_and_rules_are_reported_at_once() {
    let text = format!(
        "{GATEWAY}{GATEWAY}max_calls = 5\n[[group]]\nname = \"g\"\nmembers = [\"a\", \"a\"]\n[[group]]\nname = \"g\"\nmembers = [\"b\"]\n\
         [[rule]]\nname = \"one\"\nuser = []\n[[rule]]\nname = \"two\"\nlimit = \"x\"\n"
    );
    let found = mistakes(&text);
    let expected = [
        "5:8: gateway `a` is declared twice; give each gateway a name of its own",
        "10:11: gateway group `g` lists `a` twice; list it once, with the sum of the weights",
        "12:8: gateway group `g` is declared twice; give each group a name of its own",
        "13:11: gateway group `g` names `b`, which is not declared; declare the gateway, or remove the member (did you mean `a`?)",
        "16:8: rule \"one\": user is empty; omit it, or add an entry",
        "19:9: rule \"two\": limit: \"x\" is unknown; the configuration has none",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_balanced_group_must_choose_by_the_call_alone() {
    let with = |algorithm: &str| {
        mistakes(&format!(
            "{GATEWAY}[[group]]\nname = \"g\"\nalgorithm = \"{algorithm}\"\nmembers = [\"a\"]\n\
             [[rule]]\nname = \"r\"\naction = \"balance\"\ngroup = \"g\"\n"
        ))
    };
    assert_eq!(with("rendezvous"), [""; 0]);
    assert_eq!(
        with("round_robin"),
        [
            "11:9: `rule[0].group`: the algorithm of group \"g\" must be \"rendezvous\": without a transaction, all requests of a call must go to the same gateway"
        ]
    );
}

const FULL: &str = r#"
[numbering]
country_code = "39"
international_prefix = "000"
national_prefix = ""
plain_numbers = "national"
[[network]]
name = "carrier-a"
addresses = ["192.0.2.0/28", "2001:db8::/64"]

[[gateway]]
name = "one"
destination = "sips:one.example.net;transport=tls"
max_calls = 7
calls_per_second = 2.5
burst = 9
probe = false
probe_interval = "20s"
probe_timeout = "5s"
probe_codes = "200, 404"
misses = 2
answers = 3
timeout_misses = 4
transport_error_misses = 5
unavailable_misses = 6
longest_rest = "1m"
failover_codes = "404"
failover_on_timeout = false
failover_on_transport_error = false
failover_after_early_media = true
trusted = true
called_format = "digits"
strip = 2
prefix = "9911"
identity = "remote_party_id"
caller = "trunk"
caller_number = "+390612345"
caller_format = "international"
caller_domain = "trunk.example.net"
response_timeout = "7s"
answer_timeout = "40s"

[[gateway]]
name = "two"
destination = "sip:192.0.2.200:5070"

[[group]]
name = "both"
algorithm = "least_calls"
all_inactive = "refuse"
members = [{ gateway = "one", weight = 3, priority = 1 }, "two"]

[[limit]]
name = "carrier"
networks = ["carrier-a", "198.51.100.1"]
max_calls = 10

[[limit]]
name = "customer-7"
calls_per_second = 1
burst = 2

[call_limits]
max_calls = 100
source_max_calls = 4
source_table = 10
subscriber_calls_per_second = 0.5

[[rule]]
name = "emergency"
user = ["110", "112"]
action = "group"
group = "both"
authenticate = "never"

[[rule]]
name = "customer"
source = ["carrier-a"]
action = "local"
limit = "customer-7"
strip = 2
prefix = "+"
add_header = ["X-A: 1"]
remove_header = ["X-B"]
replace_header = ["X-C: a: b"]
header = ["X-Customer: gold-*"]
transport = ["udp", "tcp"]
"#;

fn policy(text: &str, previous: Option<&Policy>) -> Result<Policy, PolicyError> {
    let configuration = parse(text).expect("it is right");
    let listeners = config::listeners(&configuration).expect("there are addresses");
    config::policy(&configuration, &listeners, Routes::default(), previous)
}

#[test]
fn every_key_of_numbers_and_identities_reaches_the_policy() {
    let policy = policy(FULL, None).expect("a policy");
    let one = policy.gateways.gateway("one").expect("one");
    assert!(one.is_trusted());
    let expected = Rewriting {
        plan: Arc::new(NumberingPlan {
            country_code: "39".into(),
            international_prefix: "000".into(),
            national_prefix: "".into(),
            plain: PlainNumbers::National,
        }),
        called: CalledNumber {
            format: NumberFormat::Digits,
            strip: 2,
            prefix: "9911".into(),
        },
        caller: CallerIdentity {
            header: IdentityHeader::RemotePartyId,
            format: NumberFormat::International,
            number: Some("+390612345".into()),
            source: CallerSource::Trunk,
            domain: Some("trunk.example.net".into()),
        },
    };
    assert_eq!(*one.rewriting(), expected);
    let two = policy.gateways.gateway("two").expect("two");
    assert!(!two.is_trusted());
    assert_eq!(two.rewriting().called, CalledNumber::default());
    assert_eq!(two.rewriting().caller, CallerIdentity::default());
    let plan = parse("").expect("it is right").numbering;
    assert_eq!(*plan.plan(), NumberingPlan::default());
}

#[test]
fn every_key_of_a_gateway_and_a_group_reaches_the_policy() {
    let policy = policy(FULL, None).expect("a policy");
    let one = policy.gateways.gateway("one").expect("one").description();
    assert_eq!(&*one.destination.host, "one.example.net");
    assert!(one.destination.secure && one.destination.protocol == Some(Protocol::Tls));
    assert_eq!(one.max_calls, Some(7));
    assert_eq!(one.rate, sip_routing::limit::Rate::new(2.5, 9));
    let health = &one.health;
    assert!(!health.probe);
    assert_eq!(
        (health.interval, health.timeout, health.longest_rest),
        (
            Duration::from_secs(20),
            Duration::from_secs(5),
            Duration::from_mins(1)
        )
    );
    assert_eq!((health.misses, health.answers), (2, 3));
    assert_eq!(health.probe_answers.to_string(), "200, 404");
    let weights = health.weights;
    assert_eq!(
        (
            weights.timeout,
            weights.transport_error,
            weights.unavailable
        ),
        (4, 5, 6)
    );
    let failover = &one.failover;
    assert_eq!(failover.codes.to_string(), "404");
    assert!(!failover.timeout && !failover.transport_error && failover.after_early_media);
    assert_eq!(one.wait.response, Duration::from_secs(7));
    assert_eq!(one.wait.answer, Some(Duration::from_secs(40)));
    let both = policy.gateways.group("both").expect("both");
    assert_eq!(both.algorithm(), Algorithm::LeastCalls);
    let members: Vec<(&str, u16, u16)> = both
        .members()
        .map(|(gateway, weight, priority)| (gateway.name(), weight, priority))
        .collect();
    assert_eq!(members, [("two", 1, 0), ("one", 3, 1)]);
    let declared = parse(FULL).expect("it is right");
    assert_eq!(declared.group[0].all_inactive, AllInactive::Refuse);
    let two = policy.gateways.gateway("two").expect("two").description();
    assert_eq!(two.rate, None);
    assert_eq!(two.health, sip_routing::gateway::HealthRules::default());
    assert_eq!(two.failover, sip_routing::gateway::FailoverRules::default());
    assert_eq!(two.wait, sip_routing::gateway::WaitRules::default());
}

#[test]
fn every_key_of_limits_reaches_the_policy() {
    let limits = policy(FULL, None).expect("a policy").limits;
    let source = |text: &str| text.parse().expect("an address");
    for (address, expected) in [
        ("192.0.2.1", Some("carrier")),
        ("2001:db8::7", Some("carrier")),
        ("198.51.100.1", Some("carrier")),
        ("198.51.100.2", None),
    ] {
        let found = limits.network(source(address)).map(Limit::name);
        assert_eq!(found, expected, "{address}");
    }
    let carrier = limits.named("carrier").expect("carrier");
    assert_eq!(
        (carrier.scope(), carrier.bounds().max_calls),
        (Scope::Network, Some(10))
    );
    let customer = limits.named("customer-7").expect("customer-7");
    assert_eq!(customer.scope(), Scope::Rule);
    assert_eq!(
        customer.bounds().rate,
        sip_routing::limit::Rate::new(1.0, 2)
    );
    assert_eq!(limits.overall().bounds().max_calls, Some(100));
    let each: Vec<_> = limits.each_stats().collect();
    assert_eq!(each.len(), 2);
    assert_eq!((each[0].bounds.max_calls, each[0].max_keys), (Some(4), 10));
    assert_eq!(each[1].bounds.rate, sip_routing::limit::Rate::new(0.5, 1));
    let unlimited = policy("", None).expect("a policy").limits;
    assert_eq!(unlimited.each_stats().count(), 0);
}

#[test]
fn the_first_rule_of_the_file_that_matches_decides() {
    let policy = policy(FULL, None).expect("a policy");
    let matched = |uri: &str, header: &str, source: &str| {
        let text = format!("INVITE {uri} SIP/2.0\r\n{header}\r\n");
        let request = Message::parse(text.as_bytes()).expect("a request");
        let facts = Facts {
            request: &request,
            arrival: Some(Arrival {
                source: source.parse().expect("an address"),
                listener: ListenerId(0),
                protocol: Protocol::Udp,
            }),
        };
        let rule = policy.rules.first(&facts)?;
        Some(rule.name().to_owned())
    };
    let gold = "X-Customer: gold-7\r\n";
    assert_eq!(
        matched("sip:110@h", gold, "192.0.2.1").as_deref(),
        Some("emergency")
    );
    assert_eq!(
        matched("sip:1@h", gold, "192.0.2.1").as_deref(),
        Some("customer")
    );
    assert_eq!(matched("sip:1@h", "", "192.0.2.1"), None);
    assert_eq!(matched("sip:1@h", gold, "198.51.100.1"), None);
    let customer = policy.rules.iter().nth(1).expect("the second rule");
    assert_eq!(*customer.decision(), Decision::Local);
    assert_eq!(
        customer.limit().map(|limit| &*limit.name),
        Some("customer-7")
    );
    let edit = customer.number_edit().expect("an edit");
    assert_eq!((edit.strip(), edit.prefix()), (2, "+"));
    assert_eq!(customer.header_edits().iter().count(), 3);
}

#[test]
fn the_next_policy_keeps_calls_and_counts_by_name() {
    let before = policy(FULL, None).expect("a policy");
    let now = Time::from_unix_seconds(1_800_000_000);
    let group = before.gateways.group("both").expect("both");
    let choice = group.choose(1, TriedSet::default(), now, &mut NoRates);
    let place = choice.expect("a gateway").place;
    let call = Call {
        source: "192.0.2.1".parse().expect("an address"),
        subscriber: None,
        rule: None,
    };
    let permits = before.limits.admit(&call, now).expect("admitted");
    let changed = FULL.replace("max_calls = 10\n", "max_calls = 1\n");
    let after = policy(&changed, Some(&before)).expect("a policy");
    let two = after.gateways.gateway("two").expect("two");
    assert_eq!((two.live_calls(), two.view(now).statistics.tried), (1, 1));
    assert!(
        after.limits.admit(&call, now).is_err(),
        "the one call counts"
    );
    drop((place, permits));
    assert_eq!(two.live_calls(), 0);
    assert!(after.limits.admit(&call, now).is_ok());
}

#[test]
fn a_policy_that_is_wrong_only_on_this_machine_is_refused() {
    let wildcard = "[[listen]]\naddress = \"0.0.0.0:5070\"\n[[gateway]]\nname = \"a\"\ndestination = \"sip:127.0.0.1:5070\"";
    let own = OwnListener {
        gateway: "a".to_owned(),
        listener: "127.0.0.1:5070".parse().expect("an address"),
    };
    assert_eq!(
        policy(wildcard, None).err(),
        Some(PolicyError::OwnListener(own))
    );
    let other_port = wildcard.replace("127.0.0.1:5070", "127.0.0.1");
    assert!(policy(&other_port, None).is_ok());
}

#[test]
fn prefixes_that_were_read_for_other_groups_are_refused() {
    let mut builder = sip_routing::prefix::Builder::new(["both", "gone"]);
    builder.row(1, "", "49", "both;gone");
    let routes = Routes {
        prefixes: Arc::new(builder.build().expect("a table")),
        ..Routes::default()
    };
    let configuration = parse(FULL).expect("it is right");
    let refused = config::policy(&configuration, &[], routes, None);
    assert_eq!(
        refused.err().map(|error| error.to_string()).as_deref(),
        Some(
            "the prefixes name the gateway group `gone`, which is not declared; declare it, or remove it from the prefixes"
        )
    );
}

#[test]
fn the_routing_sections_are_written_back_as_they_were_read() {
    let configuration = parse(FULL).expect("it is right");
    let written = configuration.to_toml();
    assert_eq!(parse(&written).as_ref(), Ok(&configuration), "{written}");
}

#[test]
fn credentials_and_registrations_arrive_and_the_password_is_not_shown() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("secret");
    std::fs::write(&file, "s3cret\n").expect("the file is written");
    for password in [
        "\"s3cret\"".to_owned(),
        format!("{{ file = \"{}\" }}", file.display()),
    ] {
        let text = format!(
            "{GATEWAY}username = \"trunk\"\npassword = {password}\nrealm = \"carrier\"\nregister = \"sip:4930@carrier.example\"\n\
             register_contact = \"line-1\"\nregister_expires = \"10m\"\n"
        );
        let loaded = parse(&text).expect("a configuration");
        let shown = loaded.shown();
        assert!(!shown.to_toml().contains("s3cret"), "{}", shown.to_toml());
        assert!(!format!("{loaded:?}").contains("s3cret"));
        let policy = config::policy(&loaded, &[], Routes::default(), None).expect("a policy");
        let gateway = policy.gateways.gateway("a").expect("a gateway");
        let credential = gateway.credential().expect("credentials");
        assert_eq!(
            (&*credential.username, &*credential.password),
            ("trunk", "s3cret")
        );
        assert_eq!(credential.realm.as_deref(), Some("carrier"));
        let registration = gateway.description().registration.as_ref();
        let registration = registration.expect("a registration");
        assert_eq!(registration.registrar(), "sip:carrier.example");
        assert_eq!(registration.contact_user(), "line-1");
        assert_eq!(registration.expires(), Duration::from_secs(600));
    }
}
