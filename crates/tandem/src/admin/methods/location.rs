//! The methods `location.list`, `location.get` and `location.remove`.
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_elements::location::Binding;
use sip_message::Uri;
use sip_transport::{Listener, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use tandem_http::rpc::{Arguments, Failure, code};

/// Default page size, in addresses of record.
const PAGE: u64 = 100;

/// `user@domain` in canonical form, without a scheme.
fn address(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let given = arguments.text("address").unwrap_or_default();
    let uri = if given.starts_with("sip:") || given.starts_with("sips:") {
        given.to_owned()
    } else {
        format!("sip:{given}")
    };
    let parsed = Uri::parse(uri.as_bytes()).filter(|uri| uri.user.is_some());
    let Some(parsed) = parsed else {
        return Err(Failure::new(
            code::INVALID_PARAMS,
            format!("`address` = \"{given}\": must be user@domain"),
        ));
    };
    let mut canonical = Vec::new();
    parsed.write_address_of_record(&mut canonical);
    Ok(canonical)
}

pub(super) fn get(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let address = address(arguments)?;
    let now = control.clock.now();
    let mut bindings = Vec::new();
    running.shared.locations.visit(&address, now, |binding| {
        bindings.push(shown(binding, &running.listeners, now));
    });
    Ok(json!({ "address": lossy(&address), "bindings": bindings }))
}

pub(super) fn remove(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let locations = &running.shared.locations;
    let removed = locations.remove(&address(arguments)?, control.clock.now());
    Ok(json!({ "removed": removed }))
}

pub(super) async fn list(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let limit = arguments.number("limit").unwrap_or(PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let after = arguments
        .text("after")
        .unwrap_or_default()
        .as_bytes()
        .to_vec();
    let (shared, listeners) = (Arc::clone(&running.shared), running.listeners.clone());
    let now = control.clock.now();
    // Finding the next page reads all addresses, so it runs on a blocking thread.
    let page = tokio::task::spawn_blocking(move || {
        let mut page: BTreeMap<Vec<u8>, Vec<Value>> = BTreeMap::new();
        shared.locations.for_each(now, |address, binding| {
            let full = page.len() > limit;
            if address <= after.as_slice()
                || (full
                    && page
                        .last_key_value()
                        .is_some_and(|(last, _)| address > last.as_slice()))
            {
                return;
            }
            page.entry(address.to_vec())
                .or_default()
                .push(shown(binding, &listeners, now));
            // One more than requested, to detect a next page.
            if page.len() > limit + 1 {
                page.pop_last();
            }
        });
        page
    });
    let mut page = page.await.map_err(Failure::internal)?;
    let more = page.len() > limit;
    if more {
        page.pop_last();
    }
    let next = page
        .last_key_value()
        .filter(|_| more)
        .map(|(address, _)| lossy(address));
    let addresses: Vec<Value> = page
        .into_iter()
        .map(|(address, bindings)| json!({ "address": lossy(&address), "bindings": bindings }))
        .collect();
    Ok(json!({ "addresses": addresses, "next": next }))
}

fn shown(binding: &Binding<'_>, listeners: &[Listener], now: Time) -> Value {
    let listener = listeners.get(usize::from(binding.listener.0));
    json!({
        "contact": lossy(binding.contact),
        "q": f64::from(binding.q) / 1000.0,
        "expires_in": u64::from(binding.expires_at).saturating_sub(now.unix_seconds()),
        "call_id": lossy(binding.call_id),
        "cseq": binding.cseq,
        "path": optional(binding.path),
        "instance": optional(binding.instance),
        "user_agent": optional(binding.user_agent),
        "source": binding.source.to_string(),
        "listener": listener.map(|listener| listener.address.to_string()),
    })
}

fn optional(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| lossy(bytes))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
