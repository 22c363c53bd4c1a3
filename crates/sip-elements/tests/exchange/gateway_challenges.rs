//! Calls to gateways that challenge: what is answered, what the caller sees, and what a gateway that does not accept us costs.

use crate::bench::{ALICE, only, request, status};
use crate::live_calls::from_alice;
use crate::routed::{AS_ALICE, Declared, GW_A, GW_B, NUMBER, Routed, invite, one, routed};
use sip_elements::{ControlMessage, Question};
use sip_message::digest::{self, Algorithm, Credential, DigestInput};
use sip_message::{Credentials, HeaderName, Message};
use sip_routing::gateway::{State, Statistics};
use sip_transport::selection::Candidate;
use sip_transport::{Node, Protocol};

const PASSWORD: &[u8] = b"s3cret";
const MD5: &str = "realm=\"carrier\", nonce=\"n1\", qop=\"auth\", algorithm=MD5";

/// A node with a group of three gateways, of which the first one has credentials.
fn declared(group: &str, realm: Option<&str>) -> Declared {
    let mut declared = Declared::to_group(group);
    declared.gateways.gateways[0].credential = Some(Credential {
        realm: realm.map(Into::into),
        username: "trunk".into(),
        password: "s3cret".into(),
    });
    declared
}

fn node(group: &str) -> Routed {
    routed(declared(group, None))
}

fn statistics(node: &Routed) -> Statistics {
    node.gateway("a").view(node.bench.now).statistics
}

/// A 407 with these challenges.
fn challenge(
    node: &mut Routed,
    call: &(String, String),
    challenges: &[&str],
) -> Vec<(String, String)> {
    let lines = challenges
        .iter()
        .map(|it| format!("\nProxy-Authenticate: Digest {it}"));
    let status = format!(
        "407 Proxy Authentication Required{}",
        lines.collect::<String>()
    );
    node.reply(call, &status)
}

/// The value of a header field.
fn value(message: &str, name: HeaderName) -> Option<String> {
    let message = Message::parse(message.as_bytes()).expect("a message");
    let value = message.header(name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Checks credentials as the gateway does. Returns their nonce and nonce count.
fn verified(message: &str, name: HeaderName) -> (String, u32) {
    let value = value(message, name).expect("credentials");
    let found = Credentials::parse(value.as_bytes()).expect("digest");
    let parsed = Message::parse(message.as_bytes()).expect("a message");
    assert_eq!(found.username, b"trunk");
    assert_eq!(found.uri, parsed.request_uri());
    let input = DigestInput {
        method: parsed.method().as_bytes(),
        uri: found.uri,
        nonce: found.nonce,
        qop_auth: found.nc_bytes.zip(found.cnonce),
    };
    let is_sha256 = Algorithm::from_token(found.algorithm) == Some(Algorithm::Sha256);
    let expected: Vec<u8> = if is_sha256 {
        let ha1 = digest::ha1_sha256(b"trunk", found.realm, PASSWORD);
        digest::response_sha256(&ha1, &input).into()
    } else {
        let ha1 = digest::ha1_md5(b"trunk", found.realm, PASSWORD);
        digest::response_md5(&ha1, &input).into()
    };
    assert_eq!(found.response, expected, "{message}");
    let nonce = String::from_utf8_lossy(found.nonce).into_owned();
    (nonce, found.nc.unwrap_or(0))
}

fn branch(message: &str) -> String {
    let via = value(message, HeaderName::Via).expect("a Via");
    via.split_once("branch=").expect("a branch").1.to_owned()
}

#[test]
fn a_challenged_call_goes_to_the_same_gateway_again_with_credentials() {
    for (algorithm, code, name) in [
        (
            "",
            "407 Proxy Authentication Required\nProxy-Authenticate",
            HeaderName::ProxyAuthorization,
        ),
        (
            ", algorithm=MD5",
            "401 Unauthorized\nWWW-Authenticate",
            HeaderName::Authorization,
        ),
        (
            ", algorithm=SHA-256",
            "407 Proxy Authentication Required\nProxy-Authenticate",
            HeaderName::ProxyAuthorization,
        ),
        (
            ", qop=\"auth-int,auth\", opaque=\"o\"",
            "401 Unauthorized\nWWW-Authenticate",
            HeaderName::Authorization,
        ),
    ] {
        let mut node = node("pstn");
        let body = "v=0\r\no=- 1 1 IN IP4 192.0.2.10\r\n";
        let with_body = invite("i1", "Content-Type: application/sdp\n").replace(
            "Content-Length: 0\n\n",
            &format!("Content-Length: {}\n\n{body}", body.len()),
        );
        let sent = node.bench.receive(ALICE, &with_body.replace("\r\n", "\n"));
        let first = sent
            .last()
            .map(|(to, text)| (to.to_string(), text.clone()))
            .expect("a copy");
        let refusal = format!("{code}: Digest realm=\"carrier\", nonce=\"n1\"{algorithm}");
        let again = one(node.reply(&first, &refusal));
        assert_eq!(again.0, GW_A, "{refusal}");
        verified(&again.1, name);
        assert!(again.1.ends_with(body), "{}", again.1);
        assert_ne!(branch(&first.1), branch(&again.1));
        for kept in [HeaderName::CSeq, HeaderName::CallId, HeaderName::From] {
            assert_eq!(value(&first.1, kept), value(&again.1, kept));
        }
        let (to, answered) = one(node.reply(&again, "200 OK"));
        assert_eq!((to.as_str(), status(&answered)), (ALICE, 200));
        assert_eq!(node.live(), [1, 0, 0], "one place");
        let counted = statistics(&node);
        assert_eq!(
            (counted.tried, counted.answered, counted.challenges_answered),
            (1, 1, 1)
        );
        assert_eq!(node.bench.metrics.failovers.value(), 0);
    }
}

#[test]
fn the_strongest_of_several_challenges_is_answered() {
    let mut node = node("pstn");
    let call = node.call();
    let strong = "realm=\"carrier\", nonce=\"n2\", qop=\"auth\", algorithm=SHA-256";
    let again = one(challenge(
        &mut node,
        &call,
        &[
            MD5,
            strong,
            "realm=\"carrier\", nonce=\"n3\", algorithm=SHA-512-256",
        ],
    ));
    assert_eq!(verified(&again.1, HeaderName::ProxyAuthorization).0, "n2");
}

#[test]
fn the_challenges_of_two_servers_on_the_way_are_both_answered() {
    let mut node = node("pstn");
    let call = node.call();
    let again = one(challenge(&mut node, &call, &[MD5]));
    let refusal = "401 Unauthorized\nWWW-Authenticate: Digest realm=\"pbx\", nonce=\"p1\"";
    let both = one(node.reply(&again, refusal));
    assert_eq!(
        verified(&both.1, HeaderName::ProxyAuthorization),
        ("n1".into(), 2)
    );
    assert_eq!(verified(&both.1, HeaderName::Authorization).0, "p1");
    let (_, answered) = one(node.reply(&both, "200 OK"));
    assert_eq!(status(&answered), 200);
}

#[test]
fn a_stale_nonce_is_replaced_once() {
    let mut node = node("only-a");
    let call = node.call();
    let again = one(challenge(&mut node, &call, &[MD5]));
    let stale = "realm=\"carrier\", nonce=\"n2\", qop=\"auth\", stale=true";
    let third = one(challenge(&mut node, &again, &[stale]));
    assert_eq!(
        verified(&third.1, HeaderName::ProxyAuthorization),
        ("n2".into(), 1)
    );
    let (to, refused) = one(challenge(&mut node, &third, &[stale]));
    assert_eq!((to.as_str(), status(&refused)), (ALICE, 502));
}

#[test]
fn a_gateway_that_does_not_accept_us_is_replaced_and_its_challenge_stays_here() {
    let mut node = node("pstn");
    let call = node.call();
    let again = one(challenge(&mut node, &call, &[MD5]));
    let other = one(challenge(
        &mut node,
        &again,
        &["realm=\"carrier\", nonce=\"n2\", qop=\"auth\""],
    ));
    assert_eq!((other.0.as_str(), node.live()), (GW_B, [0, 1, 0]));
    assert!(!other.1.contains("Authorization"), "{}", other.1);
    let counted = statistics(&node);
    assert_eq!((counted.tried, counted.unauthorized), (1, 1));
    assert_eq!(
        (counted.challenges_answered, counted.challenges_refused),
        (1, 1)
    );
    assert_eq!(
        node.gateway("a").state(node.bench.now),
        State::Active,
        "it answers"
    );
    assert_eq!(counted.failovers, [1, 0, 0], "after a response");
}

#[test]
fn the_challenge_of_a_gateway_with_credentials_never_reaches_the_caller() {
    let huge = format!("realm=\"carrier\", nonce=\"{}\"", "n".repeat(20_000));
    for (realm, challenge) in [
        (None, "realm=\"carrier\""),
        (None, "realm=\"carrier\", nonce=\"n\", qop=\"auth-int\""),
        (None, "realm=\"carrier\", nonce=\"n\", algorithm=AKAv1-MD5"),
        (None, "realm=\"carrier, nonce=\"n\""),
        (None, &huge),
        (Some("carrier"), "realm=\"attacker\", nonce=\"n\""),
        (Some("carrier"), "realm=\"Carrier\", nonce=\"n\""),
    ] {
        for name in [
            "401 Unauthorized\nWWW-Authenticate",
            "407 Proxy\nProxy-Authenticate",
        ] {
            let mut node = routed(declared("only-a", realm));
            let call = node.call();
            let (to, refused) = one(node.reply(&call, &format!("{name}: Digest {challenge}")));
            assert_eq!((to.as_str(), status(&refused)), (ALICE, 502), "{challenge}");
            assert!(!refused.contains("Authenticate"), "{refused}");
            assert_eq!((node.live(), statistics(&node).unauthorized), ([0; 3], 1));
        }
    }
}

#[test]
fn without_credentials_a_challenge_passes() {
    let mut node = routed(Declared::to_group("pstn"));
    let call = node.call();
    let (to, refused) = one(challenge(&mut node, &call, &[MD5]));
    assert_eq!((to.as_str(), status(&refused)), (ALICE, 407));
    assert!(refused.contains("Proxy-Authenticate: Digest "), "{refused}");
}

#[test]
fn the_next_call_uses_the_nonce_at_once_until_it_is_stale() {
    let mut node = node("pstn");
    let call = node.call();
    let again = one(challenge(&mut node, &call, &[MD5]));
    assert_eq!(node.reply(&again, "100 Trying"), []);
    node.reply(&again, "486 Busy Here");
    let mut next = |number: u32| {
        let invite = invite(&format!("j{number}"), "").replace("call-1", &format!("call-{number}"));
        let (to, copy) = node.bench.receive(ALICE, &invite).pop().expect("a copy");
        (to.to_string(), copy)
    };
    let (second, third) = (next(2), next(3));
    assert_eq!(
        verified(&second.1, HeaderName::ProxyAuthorization),
        ("n1".into(), 2)
    );
    assert_eq!(
        verified(&third.1, HeaderName::ProxyAuthorization),
        ("n1".into(), 3)
    );
    // Servers that do not reuse nonces need not call them stale.
    let fresh = "realm=\"carrier\", nonce=\"n2\", qop=\"auth\"";
    let again = one(challenge(&mut node, &second, &[fresh]));
    assert_eq!(
        verified(&again.1, HeaderName::ProxyAuthorization),
        ("n2".into(), 1)
    );
    node.reply(&again, "180 Ringing");
    let (_, fourth) = {
        let invite = invite("j4", "").replace("call-1", "call-4");
        node.bench.receive(ALICE, &invite).pop().expect("a copy")
    };
    assert_eq!(
        verified(&fourth, HeaderName::ProxyAuthorization),
        ("n2".into(), 2)
    );
}

fn in_dialog(answered: &str, method: &str, cseq: u32) -> String {
    from_alice(answered, method, cseq, "")
        .replace("sip:bob@192.0.2.20:5060", "sip:gw@192.0.2.50:5060")
        .replace("sip:bob@example.org", NUMBER)
}

#[test]
fn a_challenged_request_inside_the_dialog_is_answered_too() {
    let mut node = node("pstn");
    let call = node.call();
    let (_, answered) = one(node.reply(&call, "200 OK"));
    let ack = only(node.bench.receive(ALICE, &in_dialog(&answered, "ACK", 1)));
    assert!(!ack.contains("Authorization"), "{ack}");
    let bye = node.bench.receive(ALICE, &in_dialog(&answered, "BYE", 2));
    let bye = bye
        .into_iter()
        .next()
        .map(|(to, text)| (to.to_string(), text))
        .expect("a BYE");
    let again = one(challenge(&mut node, &bye, &[MD5]));
    assert_eq!(again.0, bye.0);
    assert!(
        again
            .1
            .starts_with("BYE sip:gw@192.0.2.50:5060 SIP/2.0\r\n"),
        "{}",
        again.1
    );
    verified(&again.1, HeaderName::ProxyAuthorization);
    let (to, gone) = one(node.reply(&again, "200 OK"));
    assert_eq!((to.as_str(), status(&gone)), (ALICE, 200));
    assert_eq!((node.live(), node.bench.dialogs()), ([0; 3], (0, 0)));
}

#[test]
fn a_cancelled_call_is_not_repeated() {
    let mut node = node("pstn");
    let call = node.call();
    node.reply(&call, "100 Trying");
    let cancel = request("CANCEL", NUMBER, AS_ALICE, "i1", "");
    node.bench.receive(ALICE, &cancel);
    let (to, refused) = one(challenge(&mut node, &call, &[MD5]));
    assert_eq!((to.as_str(), status(&refused)), (ALICE, 487));
    assert_eq!(
        (node.live(), statistics(&node).challenges_answered),
        ([0; 3], 0)
    );
}

#[test]
fn credentials_of_the_caller_for_the_same_realm_are_replaced_and_others_stay() {
    let of = |realm: &str| {
        format!(
            "Digest username=\"alice\", realm=\"{realm}\", nonce=\"x\", uri=\"sip:x\", response=\"0\""
        )
    };
    let mut node = node("pstn");
    let extra = format!(
        "Proxy-Authorization: {}\nProxy-Authorization: {}\n",
        of("carrier"),
        of("other")
    );
    let call = node.call_with(&extra);
    let again = one(challenge(&mut node, &call, &[MD5]));
    let parsed = Message::parse(again.1.as_bytes()).expect("a message");
    let mut found: Vec<(&[u8], &[u8])> = parsed
        .values(HeaderName::ProxyAuthorization)
        .filter_map(Credentials::parse)
        .map(|it| (it.realm, it.username))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [(&b"carrier"[..], &b"trunk"[..]), (b"other", b"alice")]
    );
}

#[test]
fn a_number_cannot_change_our_credentials() {
    for (user, gets_there) in [("49\",username=\"x", false), ("49\\1", true)] {
        let mut declared = declared("only-a", None);
        declared.rules[0].user = None;
        let mut node = routed(declared);
        let uri = format!("sip:{user}@example.org");
        let invite = request("INVITE", &uri, AS_ALICE, "q1", "");
        let sent = node.bench.receive(ALICE, &invite);
        let (to, copy) = sent.last().expect("a message");
        assert_eq!(to.to_string() == GW_A, gets_there, "{copy}");
        if gets_there {
            let call = (to.to_string(), copy.clone());
            let (to, refused) = one(challenge(&mut node, &call, &[MD5]));
            assert_eq!((to.as_str(), status(&refused)), (ALICE, 502));
        }
    }
}

#[test]
fn the_same_address_of_a_gateway_is_asked_again_and_the_next_one_after_its_failure() {
    let mut declared = declared("pstn", None);
    declared.gateways.gateways[0].destination =
        crate::routed::gateway("a", "sip:gw.example.net").destination;
    let mut node = routed(declared);
    node.bench.receive(ALICE, &invite("i1", ""));
    let Some(Question::Resolve { ticket, .. }) = node.bench.question() else {
        panic!("no question")
    };
    let candidates = ["192.0.2.61:5060", "192.0.2.62:5060"].map(|address| Candidate {
        protocol: Protocol::Udp,
        address: address.parse().expect("an address"),
    });
    let result = Ok(candidates.to_vec());
    let now = node.bench.now;
    let resolved = ControlMessage::Resolved { ticket, result };
    node.bench
        .exchange
        .control(now, resolved, &mut node.bench.output);
    let (to, copy) = node.bench.sent().pop().expect("a copy");
    let again = one(challenge(&mut node, &(to.to_string(), copy), &[MD5]));
    assert_eq!(again.0, "192.0.2.61:5060");
    verified(&again.1, HeaderName::ProxyAuthorization);
    let next = one(node.reply(&again, "503 Service Unavailable"));
    assert_eq!(next.0, "192.0.2.62:5060");
    assert_eq!(
        verified(&next.1, HeaderName::ProxyAuthorization),
        ("n1".into(), 2)
    );
}
