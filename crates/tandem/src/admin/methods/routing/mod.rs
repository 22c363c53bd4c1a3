//! The methods about where new calls go: `gateways.*`, `groups.list`, `prefixes.*`, `limits.list`, `rules.list` and `routes.explain`.
mod explain;
mod gateways;
mod limits;
mod prefixes;
mod rewriting;
mod rules;

pub(super) use explain::explain;
pub(super) use gateways::{disable, enable, get, groups, list, reload as reload_gateways};
pub(super) use limits::limits;
pub(super) use prefixes::{lookup, reload, stats};
pub(super) use rules::rules;

use crate::config::nearest;
use crate::control::PolicyReloadError;
use tandem_http::rpc::{Failure, code};

/// The failure of a reload. The rows of the routes called so are wrong.
fn unchanged(routes: &str, error: PolicyReloadError) -> Failure {
    match error {
        PolicyReloadError::Prefixes(_) | PolicyReloadError::Policy(_) => Failure {
            details: error.lines(),
            ..Failure::refused(format!("nothing changed: the {routes} have errors"))
        },
        other => Failure::refused(other),
    }
}

/// The failure of a call that names what does not exist.
fn unknown<'k>(what: &str, name: &str, known: impl Iterator<Item = &'k str>) -> Failure {
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("`{what}s.list` lists all"),
    };
    let problem = format!("there is no {what} \"{name}\": {hint}");
    Failure::new(code::INVALID_PARAMS, problem)
}
