//! The methods `aliases.*` and `forwarding.*`.
mod aliases;
mod forwarding;

pub(super) use aliases::{delete, list, set};
pub(super) use forwarding::{delete as stop_forwarding, set as forward, show};

use crate::control::{Control, Running};
use crate::services::{self, SubscriberName};
use std::fmt::Display;
use tandem_http::rpc::{Arguments, Failure, code};

/// The longest time that phones ring, in seconds.
pub(super) const LONGEST_RING: u64 = 180;

fn domains(control: &Control) -> Vec<String> {
    let configuration = control.configuration.load();
    let domains = configuration.domains.iter();
    domains.map(|domain| domain.0.clone()).collect()
}

fn invalid(name: &str, given: &str, problem: impl Display) -> Failure {
    let message = format!("`{name}` = \"{given}\": {problem}");
    Failure::new(code::INVALID_PARAMS, message)
}

fn subscriber(
    control: &Control,
    arguments: &Arguments,
    name: &str,
) -> Result<SubscriberName, Failure> {
    let given = arguments.text(name).unwrap_or_default();
    let parsed = SubscriberName::parse(given, &domains(control));
    parsed.map_err(|problem| invalid(name, given, problem))
}

/// Checks that a subscriber exists.
async fn must_exist(running: &Running, name: &SubscriberName) -> Result<(), Failure> {
    let subscribers = running.store.subscribers();
    let found = subscribers.find(&name.username, &name.domain).await;
    match found.map_err(Failure::internal)? {
        Some(_) => Ok(()),
        None => Err(Failure::refused(format!("there is no subscriber {name}"))),
    }
}

/// Lets the workers see a change at once. Otherwise they see it within a second.
async fn refresh(running: &Running, name: (&str, &str)) -> Result<(), Failure> {
    let services = &running.shared.services;
    let refreshed = services::refresh(&running.store, services, name).await;
    refreshed.map_err(Failure::internal)
}
