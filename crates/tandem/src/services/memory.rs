//! The tables of the workers follow the database: all of it at the start, then each name that changes.
use sip_elements::services::{CallForwarding, NoAnswer, Services};
use std::time::Duration;
use tandem_store::{Forwarding, Store, StoreError};
use tracing::warn;

/// Rows read at a time.
const PAGE: u32 = 10_000;

/// Fills the tables from the database. Workers may read them meanwhile.
///
/// # Errors
/// Any database error.
pub(crate) async fn load(store: &Store, services: &Services) -> Result<(), StoreError> {
    let stored = store.services();
    let mut aliases = services.aliases.replace();
    let mut last = (String::new(), String::new());
    loop {
        let page = stored.aliases((&last.0, &last.1), PAGE).await?;
        let Some(end) = page.last() else {
            break;
        };
        last = (end.username.clone(), end.domain.clone());
        for alias in &page {
            let (username, domain) = (alias.username.as_bytes(), alias.domain.as_bytes());
            aliases.alias(username, domain, alias.subscriber.as_bytes());
        }
    }
    let without_room = aliases.finish();
    let mut forwardings = services.forwardings.replace();
    let mut last = (String::new(), String::new());
    loop {
        let page = stored.forwardings((&last.0, &last.1), PAGE).await?;
        let Some(end) = page.last() else {
            break;
        };
        last = (end.username.clone(), end.domain.clone());
        for entry in &page {
            let (username, domain) = (entry.username.as_bytes(), entry.domain.as_bytes());
            forwardings.forwarding(username, domain, in_memory(&entry.forwarding));
        }
    }
    let without_room = without_room + forwardings.finish();
    if without_room > 0 {
        warn!(
            without_room,
            "there are too many aliases or forwarding subscribers; these have no effect"
        );
    }
    Ok(())
}

/// Reads a name again that may have changed.
///
/// # Errors
/// Any database error.
pub(crate) async fn refresh(
    store: &Store,
    services: &Services,
    (username, domain): (&str, &str),
) -> Result<(), StoreError> {
    let stored = store.services();
    let subscriber = stored.find_alias(username, domain).await?;
    let forwarding = stored.find_forwarding(username, domain).await?;
    let name = (username.as_bytes(), domain.as_bytes());
    let subscriber = subscriber.as_deref().map(str::as_bytes);
    let forwarding = forwarding.as_ref().map(in_memory);
    let has_room = services.aliases.set(name.0, name.1, subscriber)
        & services.forwardings.set(name.0, name.1, forwarding);
    if !has_room {
        warn!(
            "there are too many aliases or forwarding subscribers; {username}@{domain} has no effect"
        );
    }
    Ok(())
}

fn in_memory(stored: &Forwarding) -> CallForwarding {
    let target = |uri: &str| (!uri.is_empty()).then(|| uri.as_bytes().into());
    CallForwarding {
        always: target(&stored.always),
        busy: target(&stored.busy),
        no_answer: target(&stored.no_answer).map(|target| NoAnswer {
            after: Duration::from_secs(stored.no_answer_seconds.max(1).into()),
            target,
        }),
        not_registered: target(&stored.not_registered),
    }
}
