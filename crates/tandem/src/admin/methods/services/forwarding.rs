//! The methods `forwarding.show`, `forwarding.set` and `forwarding.delete`.
use super::{invalid, must_exist, refresh, subscriber};
use crate::control::{Control, Running};
use crate::services::{SubscriberName, target_uri};
use serde_json::{Value, json};
use tandem_http::rpc::{Arguments, Failure};
use tandem_store::Forwarding;

/// How long phones ring, in seconds, unless the operator says otherwise.
const USUAL_RING: u32 = 20;

pub(in super::super) async fn show(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let name = subscriber(control, &arguments, "subscriber")?;
    let found = find(running, &name).await?;
    Ok(shown(&name, &found))
}

/// Changes what is named. An empty target ends that kind of forwarding.
pub(in super::super) async fn set(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let name = subscriber(control, &arguments, "subscriber")?;
    must_exist(running, &name).await?;
    let mut forwarding = find(running, &name).await?;
    for (kind, target) in [
        ("always", &mut forwarding.always),
        ("busy", &mut forwarding.busy),
        ("no_answer", &mut forwarding.no_answer),
        ("not_registered", &mut forwarding.not_registered),
    ] {
        match arguments.text(kind) {
            None => {}
            Some("") => target.clear(),
            Some(given) => {
                let uri = target_uri(given, &name.domain);
                *target = uri.map_err(|problem| invalid(kind, given, problem))?;
            }
        }
    }
    if let Some(seconds) = arguments.number("seconds") {
        forwarding.no_answer_seconds = u32::try_from(seconds).unwrap_or(USUAL_RING);
    }
    save(running, &name, &forwarding).await?;
    Ok(shown(&name, &forwarding))
}

pub(in super::super) async fn delete(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let name = subscriber(control, &arguments, "subscriber")?;
    let removed = save(running, &name, &Forwarding::default()).await?;
    Ok(json!({ "removed": removed }))
}

async fn find(running: &Running, name: &SubscriberName) -> Result<Forwarding, Failure> {
    let services = running.store.services();
    let found = services.find_forwarding(&name.username, &name.domain).await;
    let found = found.map_err(Failure::internal)?;
    Ok(found.unwrap_or_else(|| Forwarding {
        no_answer_seconds: USUAL_RING,
        ..Forwarding::default()
    }))
}

async fn save(
    running: &Running,
    SubscriberName { username, domain }: &SubscriberName,
    forwarding: &Forwarding,
) -> Result<bool, Failure> {
    let services = running.store.services();
    let saved = services.set_forwarding(username, domain, forwarding).await;
    let saved = saved.map_err(Failure::internal)?;
    refresh(running, (username, domain)).await?;
    Ok(saved)
}

fn shown(name: &SubscriberName, forwarding: &Forwarding) -> Value {
    let target = |uri: &String| (!uri.is_empty()).then(|| uri.clone());
    let no_answer = target(&forwarding.no_answer);
    let seconds = no_answer.as_ref().map(|_| forwarding.no_answer_seconds);
    json!({
        "subscriber": name.to_string(),
        "always": target(&forwarding.always),
        "busy": target(&forwarding.busy),
        "no_answer": no_answer,
        "seconds": seconds,
        "not_registered": target(&forwarding.not_registered),
    })
}
