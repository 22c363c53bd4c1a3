//! The methods `gateways.list`, `gateways.get`, `gateways.disable`, `gateways.enable`, `gateways.reload` and `groups.list`.
use super::{rewriting, unchanged, unknown};
use crate::config::{Keyword as _, NextHop};
use crate::control::{Control, ReloadedGateways, Running};
use serde_json::{Value, json};
use sip_routing::Policy;
use sip_routing::gateway::{
    Cause, Gateway, GatewayView, Group, RegistrationView, State, Statistics,
};
use sip_transport::Time;
use std::sync::Arc;
use tandem_http::rpc::{Arguments, Failure, code};
use tracing::info;

/// The words for states, in the order of [`State`].
const STATES: [State; 5] = [
    State::Unprobed,
    State::Active,
    State::Resting,
    State::Inactive,
    State::Disabled,
];

pub(in crate::admin::methods) fn list(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let wanted = arguments.text("state");
    if let Some(word) = wanted
        && !STATES.iter().any(|state| state.name() == word)
    {
        let words = STATES.map(State::name).join(", ");
        let problem = format!("`state` = \"{word}\": must be one of {words}");
        return Err(Failure::new(code::INVALID_PARAMS, problem));
    }
    let now = control.clock.now();
    let policy = running.policy.load();
    let gateways = policy.gateways.gateways().iter();
    let views = gateways.map(|gateway| gateway.view(now));
    let views = views.filter(|view| wanted.is_none_or(|word| view.state.name() == word));
    let gateways: Vec<Value> = views.map(|view| shown(&view, now)).collect();
    Ok(json!({ "gateways": gateways }))
}

pub(in crate::admin::methods) fn get(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let now = control.clock.now();
    let policy = running.policy.load();
    let gateway = named(&policy, arguments)?;
    let groups = policy.gateways.groups();
    let is_member = |group: &&Arc<Group>| {
        let mut members = group.members();
        members.any(|(member, ..)| member.index() == gateway.index())
    };
    let mut groups: Vec<&str> = groups.filter(is_member).map(|group| group.name()).collect();
    groups.sort_unstable();
    let mut shown = shown(&gateway.view(now), now);
    if let Some(facts) = shown.as_object_mut() {
        facts.insert("groups".to_owned(), json!(groups));
        rewriting::describe(gateway, facts);
    }
    Ok(shown)
}

pub(in crate::admin::methods) fn disable(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let policy = running.policy.load();
    let gateway = named(&policy, arguments)?;
    let changed = gateway.disable(control.clock.now());
    if changed {
        info!(gateway = gateway.name(), "an operator disabled a gateway");
    }
    Ok(json!({ "gateway": gateway.name(), "changed": changed, "live_calls": gateway.live_calls() }))
}

pub(in crate::admin::methods) fn enable(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let policy = running.policy.load();
    let gateway = named(&policy, arguments)?;
    let changed = gateway.enable(control.clock.now());
    if changed {
        info!(gateway = gateway.name(), "an operator enabled a gateway");
    }
    Ok(json!({ "gateway": gateway.name(), "changed": changed, "live_calls": gateway.live_calls() }))
}

pub(in crate::admin::methods) async fn reload(
    control: &Control,
    running: &Running,
) -> Result<Value, Failure> {
    let reloaded = control.reload_gateways(running).await;
    let ReloadedGateways {
        gateways,
        groups,
        notes,
    } = reloaded.map_err(|error| unchanged("gateways or prefixes", error))?;
    Ok(json!({ "gateways": gateways, "groups": groups, "notes": notes }))
}

pub(in crate::admin::methods) fn groups(control: &Control, running: &Running) -> Value {
    let now = control.clock.now();
    let policy = running.policy.load();
    let mut groups: Vec<&Arc<Group>> = policy.gateways.groups().collect();
    groups.sort_unstable_by_key(|group| group.name());
    let shown = groups.into_iter().map(|group| {
        let members = group.members().map(|(gateway, weight, priority)| {
            json!({
                "gateway": gateway.name(),
                "weight": weight,
                "priority": priority,
                "state": gateway.state(now).name(),
                "live_calls": gateway.live_calls(),
            })
        });
        json!({
            "name": group.name(),
            "algorithm": group.algorithm().word(),
            "members": members.collect::<Vec<_>>(),
        })
    });
    json!({ "groups": shown.collect::<Vec<_>>() })
}

fn named<'p>(policy: &'p Policy, arguments: &Arguments) -> Result<&'p Arc<Gateway>, Failure> {
    let name = arguments.text("name").unwrap_or_default();
    let names = policy.gateways.gateways().iter().map(|it| it.name());
    let found = policy.gateways.gateway(name);
    found.ok_or_else(|| unknown("gateway", name, names))
}

fn shown(view: &GatewayView<'_>, now: Time) -> Value {
    let seconds = |time: Option<Time>| time.map(|time| (time - now).as_secs());
    let Statistics {
        tried,
        answered,
        failed: [redirected, client, server, global],
        timeouts,
        transport_errors,
        unauthorized,
        abandoned,
        failovers: [of_responses, of_timeouts, of_transport_errors],
        full,
        rate_limited,
        challenges_answered,
        challenges_refused,
        probes_sent,
        probes_answered,
        state_changes,
        rests,
        changed_at,
        cause,
    } = view.statistics;
    json!({
        "name": view.name,
        "destination": NextHop(view.destination.clone()).uri(),
        "state": view.state.name(),
        "misses": view.misses,
        "answers": view.answers,
        "rests_for": seconds(view.rests_until),
        "next_probe_in": seconds(view.next_probe),
        "live_calls": view.live_calls,
        "max_calls": view.max_calls,
        "tried": tried,
        "answered": answered,
        "failed": { "3xx": redirected, "4xx": client, "5xx": server, "6xx": global },
        "timeouts": timeouts,
        "transport_errors": transport_errors,
        "unauthorized": unauthorized,
        "abandoned": abandoned,
        "failovers": {
            "response": of_responses, "timeout": of_timeouts, "transport_error": of_transport_errors,
        },
        "full": full,
        "rate_limited": rate_limited,
        "username": view.username,
        "challenges_answered": challenges_answered,
        "challenges_refused": challenges_refused,
        "registration": view.registration.as_ref().map(|it| registration(it, now)),
        "probes_sent": probes_sent,
        "probes_answered": probes_answered,
        "state_changes": state_changes,
        "rests": rests,
        "changed_ago": changed_at.map(|changed| (now - changed).as_secs()),
        "cause": cause.map(Cause::text),
    })
}

fn registration(view: &RegistrationView<'_>, now: Time) -> Value {
    let seconds = |time: Option<Time>| time.map(|time| (time - now).as_secs());
    json!({
        "address": view.address,
        "state": view.state.name(),
        "expires_in": seconds(view.expires_at),
        "next_attempt_in": seconds(view.next_attempt),
        "last_response": view.status,
        "succeeded": view.succeeded,
        "failed": view.failed,
    })
}
