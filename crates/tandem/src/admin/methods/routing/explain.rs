//! The method `routes.explain`: what would become of a request, and why.
use super::prefixes::shown as shown_prefixes;
use super::rewriting;
use super::rules::shown as shown_rule;
use crate::admin::failure::{Failure, code};
use crate::admin::methods::arguments::Arguments;
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_message::{Message, Uri, home_hash};
use sip_routing::Policy;
use sip_routing::gateway::{Group, Verdict};
use sip_routing::rule::{Decision, Facts, Outcome, Rule};
use sip_transport::{Listener, ListenerId, Time};
use std::net::IpAddr;

/// The Call-ID of a request without one.
const CALL_ID: &str = "explain";

/// A request, and how it would arrive.
struct Asked {
    text: String,
    source: IpAddr,
    listener: ListenerId,
    call: u64,
}

pub(in crate::admin::methods) fn explain(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let asked = Asked::new(running, arguments)?;
    let request = Message::parse(asked.text.as_bytes())
        .map_err(|error| invalid(format!("this is no request: {error}")))?;
    let listener = running.listeners.get(usize::from(asked.listener.0));
    let protocol = listener.map(|listener| listener.protocol);
    let facts = Facts {
        request: &request,
        source: asked.source,
        listener: asked.listener,
        protocol: protocol.ok_or_else(|| invalid("there is no listener".to_owned()))?,
    };
    let policy = running.policy.load();
    let now = control.clock.now();
    let steps = policy.rules.explain(&facts);
    let is_match = |outcome: &Outcome| *outcome == Outcome::Matched;
    let matched = steps.iter().find(|step| is_match(&step.outcome));
    let rule = matched.and_then(|step| policy.rules.iter().find(|rule| *rule.name() == *step.rule));
    let shown = steps.iter().map(|step| {
        json!({ "rule": step.rule, "matches": is_match(&step.outcome), "why": step.to_string() })
    });
    let uri = edited(&request, rule);
    let user = Uri::parse(&uri)
        .and_then(|uri| uri.user)
        .unwrap_or_default();
    let (prefixes, groups) = match rule.map(Rule::decision) {
        Some(Decision::Prefixes(table)) => by_prefix(&policy, &table.name, user),
        Some(Decision::Group(group) | Decision::Balance(group)) => {
            (Value::Null, vec![group.name.to_string()])
        }
        _ => (Value::Null, Vec::new()),
    };
    let groups = groups.iter().filter_map(|name| policy.gateways.group(name));
    let is_balanced = matches!(rule.map(Rule::decision), Some(Decision::Balance(_)));
    let rewritten = (!is_balanced).then_some(&*uri);
    Ok(json!({
        "steps": shown.collect::<Vec<_>>(),
        "rule": rule.map(shown_rule),
        "request_uri": String::from_utf8_lossy(&uri),
        "limits": limits(&policy, rule, asked.source),
        "prefixes": prefixes,
        "groups": groups.map(|group| shown_group(group, asked.call, rewritten, now)).collect::<Vec<_>>(),
    }))
}

/// The Request-URI with the changed number of the rule.
fn edited(request: &Message<'_>, rule: Option<&Rule>) -> Vec<u8> {
    let mut edited = Vec::new();
    let edit = rule.and_then(Rule::number_edit);
    match edit.zip(request.uri()) {
        Some((edit, uri)) if edit.write(uri, &mut edited) => edited,
        _ => request.request_uri().to_vec(),
    }
}

/// The named limits that the call counts towards.
fn limits(policy: &Policy, rule: Option<&Rule>, source: IpAddr) -> Vec<String> {
    if rule.is_some_and(Rule::is_exempt) {
        return Vec::new();
    }
    let network = policy.limits.network(source);
    let network = network.map(|limit| limit.name().to_owned());
    let of_rule = rule.and_then(Rule::limit);
    let of_rule = of_rule.map(|limit| limit.name.to_string());
    network.into_iter().chain(of_rule).collect()
}

/// The prefixes of a number, and the names of the groups behind the longest one.
fn by_prefix(policy: &Policy, table: &str, user: &[u8]) -> (Value, Vec<String>) {
    let found = policy.prefixes.explain(table, user);
    let best = found.candidates.first();
    let groups = best.map(|best| best.routes.groups().map(str::to_owned).collect());
    (shown_prefixes(&found), groups.unwrap_or_default())
}

/// The members of a group in the order in which the call would try them, then those that it would not try.
fn shown_group(group: &Group, call: u64, uri: Option<&[u8]>, now: Time) -> Value {
    let mut members = Vec::new();
    group.explain(call, now, |gateway, verdict| {
        let verdict = match verdict {
            Verdict::Try => "try",
            Verdict::LastResort => "last resort",
            Verdict::Skip(why) => why.name(),
        };
        let called = uri.map(|uri| rewriting::called(gateway, uri));
        members.push(json!({ "gateway": gateway.name(), "verdict": verdict, "called": called }));
    });
    json!({ "name": group.name(), "members": members })
}

impl Asked {
    fn new(running: &Running, arguments: &Arguments) -> Result<Self, Failure> {
        let text = |name| arguments.text(name);
        let source = text("source").unwrap_or("127.0.0.1");
        let source = source.parse().map_err(|_| {
            invalid(format!(
                "`source` = \"{source}\": must be an address, such as 192.0.2.7"
            ))
        })?;
        let call_id = text("call_id").unwrap_or(CALL_ID);
        Ok(Self {
            text: request(arguments, call_id)?,
            source,
            listener: listener(&running.listeners, text("listener"))?,
            call: home_hash(call_id.as_bytes()),
        })
    }
}

/// The text of the request.
fn request(arguments: &Arguments, call_id: &str) -> Result<String, Failure> {
    let text = |name| arguments.text(name);
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
