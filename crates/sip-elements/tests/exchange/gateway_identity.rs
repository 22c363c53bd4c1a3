//! Numbers and identities towards gateways, and which header fields pass between them and callers.

use crate::bench::{ALICE, only, request, settings, status};
use crate::live_calls::{from_alice, from_bob};
use crate::routed::{
    AS_ALICE, Declared, GW_A, GW_B, NUMBER, Routed, invite, one, response, routed, routed_with,
    to_group,
};
use sip_elements::{Record, Settings};
use sip_routing::gateway::{CallerIdentity, IdentityHeader, Rewriting};
use sip_routing::numbering::{NumberFormat, NumberingPlan};
use sip_routing::rule::{Authentication, FieldDescription, RuleDescription};
use std::sync::Arc;

const STRANGER: &str = "198.51.100.66:5060";
const AS_STRANGER: &str = "sip:+4420123456@carrier.example";
/// Every header field that only trusted peers may send.
const ASSERTED: &str = "P-Asserted-Identity: <sip:+4940111222@carrier.example>\n\
                        P-Preferred-Identity: <sip:+4940111222@carrier.example>\n\
                        Remote-Party-ID: <sip:+4940111222@carrier.example>\n\
                        Diversion: <sip:+4940111222@carrier.example>\n\
                        History-Info: <sip:+4940111222@carrier.example>;index=1\n";

fn header<'m>(message: &'m str, name: &str) -> Vec<&'m str> {
    let lines = message
        .split("\r\n")
        .filter_map(|line| line.split_once(": "));
    let values = lines.filter(|(other, _)| *other == name);
    values.map(|(_, value)| value).collect()
}

/// The identity header fields of a message, by their first letters.
fn named(message: &str) -> String {
    let names = [
        "P-Asserted-Identity",
        "P-Preferred-Identity",
        "Remote-Party-ID",
        "Diversion",
        "History-Info",
    ];
    let found = names.into_iter().zip(["A", "P", "R", "D", "H"]);
    let found = found.filter(|(name, _)| !header(message, name).is_empty());
    found.map(|(_, letter)| letter).collect()
}

fn rewriting(header: IdentityHeader, called: NumberFormat, caller: NumberFormat) -> Rewriting {
    let mut rewriting = Rewriting {
        plan: Arc::new(NumberingPlan {
            country_code: "49".into(),
            ..NumberingPlan::default()
        }),
        caller: CallerIdentity {
            header,
            format: caller,
            number: Some("+4930123400".into()),
            ..CallerIdentity::default()
        },
        ..Rewriting::default()
    };
    rewriting.called.format = called;
    rewriting
}

/// The gateway `a` is trusted and wants P-Asserted-Identity, `b` is not and wants Remote-Party-ID, and `c` wants nothing changed.
fn declared(rules: Vec<RuleDescription>) -> Declared {
    use NumberFormat::{Digits, E164, National};
    let mut declared = Declared::to_group("pstn");
    let [a, b, _] = &mut declared.gateways.gateways[..] else {
        panic!("three gateways")
    };
    a.trusted = true;
    a.rewriting = rewriting(IdentityHeader::Asserted, National, E164);
    b.rewriting = rewriting(IdentityHeader::RemotePartyId, Digits, Digits);
    b.rewriting.called.prefix = "9911".into();
    declared.rules = rules;
    declared
}

fn node() -> Routed {
    routed(declared(vec![to_group("pstn")]))
}

/// A node that challenges subscribers, and whose rule authenticates senders like this.
fn strict(authentication: Authentication) -> Routed {
    let rule = RuleDescription {
        authenticate: Some(authentication),
        ..to_group("pstn")
    };
    routed_with(settings(), declared(vec![rule]))
}

/// A request of the stranger that goes to a gateway, and what the gateway gets.
fn from_stranger(node: &mut Routed, from: &str, extra: &str) -> String {
    let sent = node
        .bench
        .receive(STRANGER, &request("INVITE", NUMBER, from, "s1", extra));
    let (to, copy) = sent.into_iter().next_back().expect("a copy");
    assert_eq!(to.to_string(), GW_A, "{copy}");
    copy
}

#[test]
fn each_gateway_gets_numbers_in_its_own_form_and_failover_starts_from_the_original() {
    let mut node = node();
    let from = AS_ALICE.replace("alice", "030123456");
    let call = request("INVITE", NUMBER, &from, "i1", "");
    let (_, first) = node.bench.receive(ALICE, &call).pop().expect("a copy");
    assert!(
        first.starts_with(&format!("INVITE sip:089123@{GW_A} SIP/2.0\r\n")),
        "{first}"
    );
    assert_eq!(header(&first, "To"), [format!("<{NUMBER}>")], "To stays");
    assert_eq!(
        header(&first, "From"),
        [format!("<{from}>;tag=a1")],
        "From stays"
    );
    let identity = "<sip:+4930123456@example.org;user=phone>";
    assert_eq!(header(&first, "P-Asserted-Identity"), [identity]);
    let unavailable = "503 Service Unavailable";
    let (to, second) = one(node.reply(&(GW_A.into(), first), unavailable));
    assert_eq!(to, GW_B);
    assert!(
        second.starts_with(&format!("INVITE sip:99114989123@{GW_B} SIP/2.0\r\n")),
        "{second}"
    );
    assert_eq!(named(&second), "R", "{second}");
    let identity = "<sip:4930123456@example.org;user=phone>;party=calling;screen=yes;privacy=off";
    assert_eq!(header(&second, "Remote-Party-ID"), [identity]);
    let (_, third) = one(node.reply(&(to, second), unavailable));
    assert!(third.starts_with("INVITE sip:+4989123@"), "{third}");
    assert_eq!(named(&third), "", "{third}");
}

#[test]
fn a_subscriber_is_asserted_as_itself_whatever_it_claims() {
    for (from, extra, expected) in [
        (
            "030123456",
            ASSERTED,
            "<sip:+4930123456@example.org;user=phone>",
        ),
        (
            "alice",
            ASSERTED,
            "<sip:+4930123400@example.org;user=phone>",
        ),
        (
            "030123456",
            "P-Preferred-Identity: <sip:chief@example.org>, <sip:%30%330123456@example.org>\n",
            "<sip:+4930123456@example.org;user=phone>",
        ),
    ] {
        let mut node = node();
        let from = AS_ALICE.replace("alice", from);
        let call = request("INVITE", NUMBER, &from, "i1", extra);
        let (_, copy) = node.bench.receive(ALICE, &call).pop().expect("a copy");
        assert_eq!(header(&copy, "P-Asserted-Identity"), [expected]);
        assert_eq!(named(&copy), "A", "{copy}");
    }
}

#[test]
fn a_subscriber_may_prefer_one_of_its_own_aliases() {
    let named = "<sip:+4930777@example.org;user=phone>";
    let trunk = "<sip:+4930123400@example.org;user=phone>";
    for (preferred, expected) in [
        ("<sip:+4930777@example.org>", named),
        ("<tel:+4930777>", named),
        ("<sip:+4930888@example.org>, <tel:+4930777>", named),
        ("<sip:+4930777@elsewhere.example>", trunk),
        ("<sip:+4930888@example.org>", trunk),
        ("<tel:+4930999>", trunk),
        ("\"open <tel:+4930777>", trunk),
    ] {
        let mut node = node();
        let aliases = &node.bench.shared.services.aliases;
        assert!(aliases.set(b"+4930777", b"", Some(b"alice@example.org")));
        assert!(aliases.set(b"+4930888", b"", Some(b"bob@example.org")));
        let (_, copy) = node.call_with(&format!("P-Preferred-Identity: {preferred}\n"));
        assert_eq!(
            header(&copy, "P-Asserted-Identity"),
            [expected],
            "{preferred}"
        );
        assert_eq!(self::named(&copy), "A", "{copy}");
    }
}

#[test]
fn a_forwarded_call_is_asserted_as_the_subscriber_who_forwards_it() {
    use sip_elements::services::CallForwarding;
    let preferred = "P-Preferred-Identity: <sip:+4930777@example.org>\n";
    for header_fields in ["", ASSERTED, preferred] {
        let mut node = node();
        let aliases = &node.bench.shared.services.aliases;
        assert!(aliases.set(b"+4930777", b"", Some(b"030123456@example.org")));
        let forwarding = CallForwarding {
            always: Some(NUMBER.as_bytes().into()),
            ..CallForwarding::default()
        };
        let forwardings = &node.bench.shared.services.forwardings;
        let user = b"030123456";
        assert!(forwardings.set(user, b"example.org", Some(forwarding)));
        let called = "sip:030123456@example.org";
        let call = request("INVITE", called, AS_STRANGER, "s1", header_fields);
        let (to, copy) = node.bench.receive(STRANGER, &call).pop().expect("a copy");
        assert_eq!(to.to_string(), GW_A, "{copy}");
        let identity = "<sip:+4930123456@example.org;user=phone>";
        assert_eq!(header(&copy, "P-Asserted-Identity"), [identity]);
        assert_eq!(copy.matches("+4940111222").count(), 0, "{copy}");
        assert!(
            copy.contains("Diversion: <sip:030123456@example.org>"),
            "{copy}"
        );
    }
}

#[test]
fn a_trusted_peer_is_believed_and_its_identity_gets_the_form_of_the_gateway() {
    for (from, extra, expected) in [
        (
            AS_STRANGER,
            ASSERTED,
            "<sip:+4940111222@carrier.example;user=phone>",
        ),
        (
            AS_STRANGER,
            "",
            "<sip:+4420123456@carrier.example;user=phone>",
        ),
        (
            AS_STRANGER,
            "P-Asserted-Identity: \"A, B\" <tel:040-111222>\n",
            "<sip:+4940111222@example.org;user=phone>",
        ),
        (
            "sip:anonymous@anonymous.invalid",
            "",
            "<sip:+4930123400@example.org;user=phone>",
        ),
    ] {
        let mut node = strict(Authentication::Trust);
        let copy = from_stranger(&mut node, from, extra);
        assert_eq!(header(&copy, "P-Asserted-Identity"), [expected], "{extra}");
        assert_eq!(named(&copy).replace("DH", ""), "A", "{copy}");
    }
}

#[test]
fn a_stranger_is_asserted_as_the_trunk_only() {
    let mut node = strict(Authentication::Never);
    let copy = from_stranger(&mut node, AS_STRANGER, ASSERTED);
    let trunk = "<sip:+4930123400@example.org;user=phone>";
    assert_eq!(header(&copy, "P-Asserted-Identity"), [trunk]);
    assert_eq!(named(&copy), "A", "{copy}");
}

#[test]
fn an_untrusted_gateway_does_not_learn_who_withholds_its_identity() {
    for (privacy, expected) in [("id", "A"), ("critical; ID", "A"), ("none", "A")] {
        let mut node = strict(Authentication::Trust);
        let extra = format!("{ASSERTED}Privacy: {privacy}\n");
        let copy = from_stranger(&mut node, AS_STRANGER, &extra);
        assert_eq!(named(&copy), format!("{expected}DH"), "{copy}");
        assert_eq!(
            header(&copy, "Privacy"),
            [privacy],
            "the gateway withholds it, too"
        );
        let (_, copy) = one(node.reply(&(GW_A.into(), copy), "503 Service Unavailable"));
        let expected = if privacy == "none" { "RDH" } else { "DH" };
        assert_eq!(named(&copy), expected, "{copy}");
    }
}

#[test]
fn privacy_of_diversions_and_history_ends_at_the_trust_domain() {
    for (extra, to_trusted, to_untrusted) in [
        ("Diversion: <sip:1@h>;privacy=full\n", "AD", "R"),
        ("Diversion: <sip:1@h>;privacy=\"full\"\n", "AD", "R"),
        ("Diversion: <sip:1@h>;privacy=off\n", "AD", "RD"),
        ("Diversion: <sip:1@h>;reason=\"busy\"\n", "AD", "RD"),
        ("Diversion: \"open <sip:1@h>\n", "AD", "R"),
        (
            "History-Info: <sip:1@h>;index=1\nPrivacy: history\n",
            "AH",
            "R",
        ),
        (
            "History-Info: <sip:1@h>;index=1\nPrivacy: header\n",
            "AH",
            "R",
        ),
        (
            "History-Info: <sip:1@h?Privacy=history>;index=1\n",
            "AH",
            "R",
        ),
        ("History-Info: <sip:1@h>;index=1\n", "AH", "RH"),
    ] {
        let mut node = strict(Authentication::Trust);
        let copy = from_stranger(&mut node, AS_STRANGER, extra);
        assert_eq!(named(&copy), to_trusted, "{extra}");
        let (_, copy) = one(node.reply(&(GW_A.into(), copy), "503 Service Unavailable"));
        assert_eq!(named(&copy), to_untrusted, "{extra}");
    }
}

#[test]
fn a_gateway_without_an_identity_gets_none_and_a_rule_may_write_its_own() {
    let mut declared = declared(vec![RuleDescription {
        authenticate: Some(Authentication::Trust),
        ..to_group("pstn")
    }]);
    declared.gateways.gateways[0].rewriting.caller = CallerIdentity {
        header: IdentityHeader::None,
        ..CallerIdentity::default()
    };
    let mut node = routed_with(settings(), declared);
    let copy = from_stranger(&mut node, AS_STRANGER, ASSERTED);
    assert_eq!(named(&copy), "DH", "{copy}");
    let field = FieldDescription {
        name: "P-Asserted-Identity".into(),
        value: "<sip:+4955@rule.example>".into(),
    };
    let mut node = routed(self::declared(vec![RuleDescription {
        replace_header: vec![field],
        ..to_group("pstn")
    }]));
    let (_, copy) = node.call();
    assert_eq!(
        header(&copy, "P-Asserted-Identity"),
        ["<sip:+4955@rule.example>"]
    );
}

#[test]
fn a_trusted_gateway_may_say_who_answers_and_another_one_may_not() {
    for status_line in ["180 Ringing", "200 OK", "486 Busy Here"] {
        let mut node = node();
        let call = node.call();
        let answer = format!("{status_line}\n{ASSERTED}").trim_end().to_owned();
        let (to, passed) = one(node.reply(&call, &answer));
        assert_eq!(
            (to.as_str(), named(&passed).as_str()),
            (ALICE, "APRDH"),
            "{passed}"
        );
        let mut node = self::node();
        let call = node.call();
        let (_, second) = one(node.reply(&call, "503 Service Unavailable"));
        let (_, passed) = one(node.reply(&(GW_B.into(), second), &answer));
        assert_eq!(named(&passed), "", "{passed}");
    }
    // A response that waits until all gateways have failed, and one that its sender wants to be withheld from the phone.
    let mut declared = declared(vec![to_group("only-a")]);
    declared.gateways.gateways[0].failover.codes = "486".parse().expect("codes");
    let mut node = routed(declared);
    let call = node.call();
    let (_, passed) = one(node.reply(&call, &format!("486 Busy Here\n{ASSERTED}Privacy: id")));
    assert_eq!(
        (status(&passed), named(&passed).as_str()),
        (486, "DH"),
        "{passed}"
    );
}

/// Alice has a call with the trusted gateway. Returns the 2xx that she got, and the INVITE of the gateway.
fn talking(node: &mut Routed) -> (String, String) {
    let call = node.call();
    let (_, answered) = one(node.reply(&call, "200 OK"));
    let ack = from_alice(&answered, "ACK", 1, "");
    node.bench.receive(ALICE, &of_gateway(&ack));
    (answered, call.1)
}

/// A request of Alice that goes to the gateway instead of Bob.
fn of_gateway(request: &str) -> String {
    request
        .replace("sip:bob@192.0.2.20:5060", "sip:gw@192.0.2.50:5060")
        .replace("sip:bob@example.org", NUMBER)
}

/// An UPDATE of the gateway with these header fields.
fn update_of_gateway(invite: &str, extra: &str) -> String {
    from_bob(invite, "UPDATE", 7)
        .replace("sip:bob@example.org", NUMBER)
        .replace(
            "Content-Length: 0\n",
            &format!("{extra}Content-Length: 0\n"),
        )
}

/// What each side of a call gets of the header fields that the other side asserts.
fn pass_in_dialog(node: &mut Routed, answered: &str, invite: &str) -> (String, String) {
    let update = only(
        node.bench
            .receive("192.0.2.50:5060", &update_of_gateway(invite, ASSERTED)),
    );
    assert!(update.starts_with("UPDATE "), "{update}");
    let update_of_alice = of_gateway(&from_alice(answered, "UPDATE", 8, ASSERTED));
    let forwarded = only(node.bench.receive(ALICE, &update_of_alice));
    assert!(forwarded.starts_with("UPDATE "), "{forwarded}");
    assert_eq!(named(&forwarded), "", "{forwarded}");
    let answer = response(&forwarded, &format!("200 OK\n{}", ASSERTED.trim_end()));
    let answer = only(node.bench.receive("192.0.2.50:5060", &answer));
    (named(&update), named(&answer))
}

#[test]
fn inside_a_call_a_trusted_gateway_is_still_believed_also_after_a_restart() {
    let persistent = || {
        let mut settings: Settings = settings();
        settings.challenge.clear();
        settings.dialogs.persist = true;
        settings
    };
    let declared = || declared(vec![to_group("pstn")]);
    let mut node = routed_with(persistent(), declared());
    let (answered, invite) = talking(&mut node);
    let saved = node.bench.output.drain_records();
    let states = saved.filter_map(|record| match record {
        Record::Dialog { state, .. } => state,
        _ => None,
    });
    let saved: Vec<_> = states.collect();
    let saved = saved.last().expect("the dialog");
    let passed = pass_in_dialog(&mut node, &answered, &invite);
    assert_eq!(passed, ("APRDH".into(), "APRDH".into()));
    let mut node = routed_with(persistent(), declared());
    assert!(node.bench.exchange.restore(node.bench.now, saved));
    let passed = pass_in_dialog(&mut node, &answered, &invite);
    assert_eq!(passed, ("APRDH".into(), "APRDH".into()));
}

#[test]
fn inside_a_call_an_untrusted_gateway_is_not_believed() {
    let mut declared = declared(vec![to_group("pstn")]);
    declared.gateways.gateways[0].trusted = false;
    let mut node = routed(declared);
    let (answered, invite) = talking(&mut node);
    let passed = pass_in_dialog(&mut node, &answered, &invite);
    assert_eq!(passed, (String::new(), String::new()));
}

#[test]
fn every_method_reaches_a_gateway_outside_and_inside_calls_with_what_it_carries() {
    const METHODS: [&str; 7] = [
        "MESSAGE",
        "SUBSCRIBE",
        "PUBLISH",
        "REFER",
        "OPTIONS",
        "INFO",
        "NOTIFY",
    ];
    const CARRIED: [&str; 5] = [
        "Event: message-summary",
        "Refer-To: <sip:carol@example.org>",
        "Reason: Q.850;cause=16",
        "RAck: 1 1 INVITE",
        "Subscription-State: active",
    ];
    let extra = CARRIED.map(|line| format!("{line}\n")).concat();
    let mut node = node();
    for method in METHODS {
        let outside = request(method, NUMBER, AS_ALICE, &format!("o{method}"), &extra);
        let (to, copy) = node.bench.receive(ALICE, &outside).pop().expect("a copy");
        assert_eq!(to.to_string(), GW_A, "{method}");
        assert!(copy.starts_with(&format!("{method} sip:089123@")), "{copy}");
        assert_eq!(named(&copy), "A", "{method}");
        for carried in CARRIED {
            assert!(
                copy.contains(&format!("{carried}\r\n")),
                "{method} without {carried}"
            );
        }
        let accepted = only(node.bench.receive(GW_A, &response(&copy, "200 OK")));
        assert_eq!(status(&accepted), 200);
    }
    let mut node = self::node();
    let (answered, invite) = talking(&mut node);
    let in_calls = METHODS.into_iter().chain(["PRACK", "UPDATE"]);
    for (method, cseq) in in_calls.zip(10..) {
        let inside = of_gateway(&from_alice(&answered, method, cseq, &extra));
        let forwarded = only(node.bench.receive(ALICE, &inside));
        let back = from_bob(&invite, method, cseq)
            .replace("sip:bob@example.org", NUMBER)
            .replace("Content-Length", &format!("{extra}Content-Length"));
        let back = back.replace("message-summary", "refer");
        let returned = only(node.bench.receive("192.0.2.50:5060", &back));
        for copy in [&forwarded, &returned] {
            assert!(copy.starts_with(method), "{copy}");
            for carried in &CARRIED[1..] {
                assert!(
                    copy.contains(&format!("{carried}\r\n")),
                    "{method} without {carried}"
                );
            }
        }
    }
}

#[test]
fn reliable_provisional_responses_and_their_prack_pass_before_the_answer() {
    let mut node = node();
    let call = node.call_with("Supported: 100rel\n");
    assert_eq!(header(&call.1, "Supported"), ["100rel"]);
    let progress = "183 Session Progress\nRequire: 100rel\nRSeq: 1\nReason: Q.850;cause=16";
    let (_, passed) = one(node.reply(&call, progress));
    for line in ["Require: 100rel", "RSeq: 1", "Reason: Q.850;cause=16"] {
        assert!(passed.contains(&format!("{line}\r\n")), "{passed}");
    }
    let prack = of_gateway(&from_alice(&passed, "PRACK", 2, "RAck: 1 1 INVITE\n"));
    let forwarded = only(node.bench.receive(ALICE, &prack));
    assert!(forwarded.starts_with("PRACK sip:gw@"), "{forwarded}");
    assert_eq!(header(&forwarded, "RAck"), ["1 1 INVITE"]);
    let answer = only(
        node.bench
            .receive("192.0.2.50:5060", &response(&forwarded, "200 OK")),
    );
    assert_eq!(status(&answer), 200);
    let update = only(
        node.bench
            .receive("192.0.2.50:5060", &update_of_gateway(&call.1, "")),
    );
    assert!(update.starts_with("UPDATE "), "{update}");
}

#[test]
fn what_a_gateway_would_get_is_explained() {
    use sip_elements::explain::{Way, explain};
    let mut settings = settings();
    let policy = declared(vec![to_group("pstn")]).policy(&settings);
    settings.policy = Arc::clone(&policy);
    let node = node();
    let view = sip_elements::View {
        now: node.bench.now,
        settings: &settings,
        shared: &node.bench.shared,
    };
    let source = sip_transport::Flow::to(sip_transport::ListenerId(0), ALICE.parse().expect("one"));
    let bytes = invite("i1", "").replace('\n', "\r\n");
    let Ok(Way::Gateways { groups, .. }) = explain(view, source, bytes.as_bytes()).map(|it| it.way)
    else {
        panic!("another way")
    };
    let uris = groups[0]
        .members
        .iter()
        .map(|it| String::from_utf8_lossy(&it.request_uri));
    let expected = [
        "sip:089123@192.0.2.51:5060",
        "sip:99114989123@192.0.2.52:5060",
        "sip:+4989123@192.0.2.53:5060",
    ];
    assert_eq!(uris.collect::<Vec<_>>(), expected);
}
