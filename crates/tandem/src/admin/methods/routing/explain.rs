//! The method `routes.explain`: what would become of a request, and why.
use super::rewriting;
use super::rules::shown as shown_rule;
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_elements::View;
use sip_elements::explain::{
    ExplainedCallee, ExplainedGroup, Explanation, NotExplained, Prefixes, Way,
};
use sip_elements::services::CallForwarding;
use sip_routing::Policy;
use sip_routing::gateway::Verdict;
use sip_routing::rule::Outcome;
use sip_transport::{Flow, Listener, ListenerId};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tandem_http::rpc::{Arguments, Failure, code};

/// The Call-ID of a request without one.
const CALL_ID: &str = "explain";

pub(in crate::admin::methods) fn explain(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let policy = running.policy.load_full();
    let configuration = control.configuration.load();
    let settings = control.settings(&configuration, &running.listeners, Arc::clone(&policy));
    let view = View {
        now: control.clock.now(),
        settings: &settings,
        shared: &running.shared,
    };
    let source = source(arguments)?;
    let listener = listener(&running.listeners, arguments.text("listener"))?;
    let request = request(arguments)?;
    let flow = Flow::to(listener, SocketAddr::new(source, 5060));
    let explained = sip_elements::explain::explain(view, flow, request.as_bytes());
    let explained = explained.map_err(|problem| match problem {
        NotExplained::NotSip => invalid("this is no request".to_owned()),
        NotExplained::NoRequest => invalid("an ACK or a CANCEL follows its INVITE".to_owned()),
    })?;
    Ok(shown(&explained, &policy))
}

fn shown(explained: &Explanation, policy: &Policy) -> Value {
    let steps = explained.steps.iter().map(|step| {
        let is_match = step.outcome == Outcome::Matched;
        json!({ "rule": step.rule, "matches": is_match, "why": step.to_string() })
    });
    let name = explained.rule.as_deref();
    let rule = name.and_then(|name| policy.rules.iter().find(|rule| rule.name() == name));
    let (prefixes, groups) = match &explained.way {
        Way::Gateways { prefixes, groups } => (prefixes.as_ref(), &groups[..]),
        _ => (None, &[][..]),
    };
    let uri = &*explained.request_uri;
    let shown_groups = groups.iter().map(|group| shown_group(group, policy, uri));
    json!({
        "steps": steps.collect::<Vec<_>>(),
        "rule": rule.map(shown_rule),
        "way": way(&explained.way),
        "request_uri": String::from_utf8_lossy(&explained.request_uri),
        "limits": explained.limits,
        "prefixes": prefixes.map(shown_prefixes),
        "groups": shown_groups.collect::<Vec<_>>(),
        "subscriber": explained.callee.as_ref().map(shown_callee),
    })
}

/// One word for where the request goes.
const fn way(way: &Way) -> &'static str {
    match way {
        Way::Dialog => "dialog",
        Way::Refused { .. } => "refused",
        Way::Redirected(_) => "redirected",
        Way::Gateways { .. } => "gateways",
        Way::Server(_) => "server",
        Way::Ordinary => "ordinary",
    }
}

fn shown_callee(callee: &ExplainedCallee) -> Value {
    let address = String::from_utf8_lossy(&callee.address);
    let forwarding = callee.forwarding.as_deref();
    json!({
        "address": address,
        "alias": callee.is_by_alias,
        "contacts": callee.contacts,
        "forwarding": forwarding.map(|forwarding| shown_forwarding(&address, forwarding)),
    })
}

/// As `forwarding.show` writes it.
fn shown_forwarding(address: &str, forwarding: &CallForwarding) -> Value {
    let text = |uri: &[u8]| String::from_utf8_lossy(uri).into_owned();
    let no_answer = forwarding.no_answer.as_ref();
    json!({
        "subscriber": address,
        "always": forwarding.always.as_deref().map(text),
        "busy": forwarding.busy.as_deref().map(text),
        "no_answer": no_answer.map(|it| text(&it.target)),
        "seconds": no_answer.map(|it| it.after.as_secs()),
        "not_registered": forwarding.not_registered.as_deref().map(text),
    })
}

fn shown_prefixes(found: &Prefixes) -> Value {
    let candidates = found.candidates.iter();
    let candidates =
        candidates.map(|(prefix, groups)| json!({ "prefix": prefix, "groups": groups }));
    json!({
        "table": found.table,
        "digits": found.digits,
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

/// The members of a group in the order in which the call would try them, then those that it would not try.
fn shown_group(group: &ExplainedGroup, policy: &Policy, uri: &[u8]) -> Value {
    let members = group.members.iter().map(|member| {
        let verdict = match member.verdict {
            Verdict::Try => "try",
            Verdict::LastResort => "last resort",
            Verdict::Skip(why) => why.name(),
        };
        let gateway = policy.gateways.gateway(&member.gateway);
        let called = gateway.map(|gateway| rewriting::called(gateway, uri));
        json!({ "gateway": member.gateway, "verdict": verdict, "called": called })
    });
    json!({ "name": group.name, "members": members.collect::<Vec<_>>() })
}

fn source(arguments: &Arguments) -> Result<IpAddr, Failure> {
    let source = arguments.text("source").unwrap_or("127.0.0.1");
    source.parse().map_err(|_| {
        invalid(format!(
            "`source` = \"{source}\": must be an address, such as 192.0.2.7"
        ))
    })
}

/// The text of the request.
fn request(arguments: &Arguments) -> Result<String, Failure> {
    let text = |name| arguments.text(name);
    let call_id = text("call_id").unwrap_or(CALL_ID);
    let uri = text("uri").unwrap_or_default();
    let method = text("method").unwrap_or("INVITE");
    let from = text("from").unwrap_or("sip:anonymous@anonymous.invalid");
    let to = text("to").unwrap_or(uri);
    let header = text("header").map(|header| format!("{header}\r\n"));
    for given in [
        uri,
        method,
        from,
        to,
        call_id,
        text("header").unwrap_or_default(),
    ] {
        if given.chars().any(char::is_control) {
            return Err(invalid(
                "a parameter contains a control character".to_owned(),
            ));
        }
    }
    Ok(format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKexplain\r\nFrom: <{from}>;tag=explain\r\nTo: <{to}>\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\n{}\r\n",
        header.unwrap_or_default()
    ))
}

/// The listener that the request arrives on: as `transport:address`, or the first one.
fn listener(listeners: &[Listener], wanted: Option<&str>) -> Result<ListenerId, Failure> {
    let shown = |listener: &Listener| {
        let protocol = listener.protocol.via_token().to_ascii_lowercase();
        format!("{protocol}:{}", listener.address)
    };
    let Some(wanted) = wanted else {
        return Ok(ListenerId(0));
    };
    let found = listeners
        .iter()
        .position(|listener| shown(listener) == wanted);
    let found = found.and_then(|index| u16::try_from(index).ok());
    found.map(ListenerId).ok_or_else(|| {
        let known: Vec<String> = listeners.iter().map(shown).collect();
        let known = known.join(", ");
        invalid(format!("`listener` = \"{wanted}\": must be one of {known}"))
    })
}

fn invalid(problem: String) -> Failure {
    Failure::new(code::INVALID_PARAMS, problem)
}
