//! The methods `aliases.list`, `aliases.set` and `aliases.delete`.
use super::{domains, invalid, must_exist, refresh, subscriber};
use crate::control::{Control, Running};
use crate::services::AliasName;
use serde_json::{Value, json};
use tandem_http::rpc::{Arguments, Failure};
use tandem_store::Alias;

/// Default page size.
const PAGE: u64 = 100;

fn name(control: &Control, arguments: &Arguments, name: &str) -> Result<AliasName, Failure> {
    let given = arguments.text(name).unwrap_or_default();
    let parsed = AliasName::parse(given, &domains(control));
    parsed.map_err(|problem| invalid(name, given, problem))
}

pub(in super::super) async fn list(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let limit = arguments.number("limit").unwrap_or(PAGE);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let after = match arguments.text("after") {
        Some(_) => name(control, &arguments, "after")?,
        None => AliasName {
            username: String::new(),
            domain: String::new(),
        },
    };
    let after = (&*after.username, &*after.domain);
    // One more than requested, to detect a next page.
    let page = running.store.services().aliases(after, limit + 1).await;
    let mut page = page.map_err(Failure::internal)?;
    let has_more = page.len() > limit as usize;
    page.truncate(limit as usize);
    let shown: Vec<Value> = page.iter().map(shown).collect();
    let next = page.last().filter(|_| has_more).map(written);
    Ok(json!({ "aliases": shown, "next": next }))
}

pub(in super::super) async fn set(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let alias = name(control, &arguments, "alias")?;
    let subscriber = subscriber(control, &arguments, "subscriber")?;
    must_exist(running, &subscriber).await?;
    let services = running.store.services();
    let alias = Alias {
        username: alias.username,
        domain: alias.domain,
        subscriber: subscriber.to_string(),
    };
    let set = services.set_aliases(std::slice::from_ref(&alias)).await;
    set.map_err(Failure::internal)?;
    refresh(running, (&alias.username, &alias.domain)).await?;
    Ok(shown(&alias))
}

pub(in super::super) async fn delete(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let alias = name(control, &arguments, "alias")?;
    let services = running.store.services();
    let removed = services.remove_alias(&alias.username, &alias.domain).await;
    let removed = removed.map_err(Failure::internal)?;
    refresh(running, (&alias.username, &alias.domain)).await?;
    Ok(json!({ "removed": removed }))
}

fn shown(alias: &Alias) -> Value {
    json!({ "alias": written(alias), "subscriber": alias.subscriber })
}

fn written(alias: &Alias) -> String {
    let name = AliasName {
        username: alias.username.clone(),
        domain: alias.domain.clone(),
    };
    name.to_string()
}
