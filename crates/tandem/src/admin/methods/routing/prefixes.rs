//! The methods `prefixes.lookup`, `prefixes.reload` and `prefixes.stats`.
use super::unchanged;
use crate::config::Prefixes;
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_routing::prefix::{Candidate, DEFAULT, Explanation};
use tandem_http::rpc::{Arguments, Failure, code};

/// All prefixes of a number, the longest first, which decides.
pub(in crate::admin::methods) fn lookup(
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let number = arguments.text("number").unwrap_or_default();
    let table = arguments.text("table").unwrap_or(DEFAULT);
    let policy = running.policy.load();
    let found = policy.prefixes.explain(table, number.as_bytes());
    if found.digits.is_empty() {
        let problem = format!(
            "`number` = \"{number}\": must be a telephone number: digits, *, # and A to D, such as +49 30 123"
        );
        return Err(Failure::new(code::INVALID_PARAMS, problem));
    }
    Ok(shown(&found))
}

fn shown(found: &Explanation<'_>) -> Value {
    let candidate = |it: &Candidate<'_>| json!({ "prefix": it.prefix, "groups": it.routes.groups().collect::<Vec<_>>() });
    json!({
        "table": found.table,
        "digits": found.digits,
        "candidates": found.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

pub(in crate::admin::methods) async fn reload(
    control: &Control,
    running: &Running,
) -> Result<Value, Failure> {
    let reloaded = control.reload_prefixes(running).await;
    let prefixes = reloaded.map_err(|error| unchanged("prefixes", error))?;
    Ok(json!({
        "prefixes": prefixes,
        "milliseconds": control.counters.prefixes.took().as_millis(),
    }))
}

pub(in crate::admin::methods) fn stats(control: &Control, running: &Running) -> Value {
    let policy = running.policy.load();
    let counters = &control.counters.prefixes;
    let now = control.clock.now();
    let tables = policy.prefixes.tables();
    let tables = tables.map(|(name, prefixes)| json!({ "name": name, "prefixes": prefixes }));
    let read = counters.read_at();
    json!({
        "source": source(&control.configuration.load().prefixes),
        "prefixes": policy.prefixes.len(),
        "bytes": policy.prefixes.bytes(),
        "lists": policy.prefixes.lists().len(),
        "tables": tables.collect::<Vec<_>>(),
        "read_ago": read.map(|at| (now - at).as_secs()),
        "read_in_milliseconds": read.map(|_| counters.took().as_millis()),
        "reloads": counters.reloads.get(),
        "failures": counters.failures.get(),
    })
}

/// Where the prefixes come from; `None`: there are none.
fn source(prefixes: &Prefixes) -> Option<String> {
    match prefixes {
        Prefixes::None => None,
        Prefixes::File(source) => Some(source.file.0.display().to_string()),
        Prefixes::Database(columns) => Some(format!("table {}", columns.table.0)),
        Prefixes::Kamailio(columns) => Some(format!("table {} of Kamailio", columns.table.0)),
    }
}
