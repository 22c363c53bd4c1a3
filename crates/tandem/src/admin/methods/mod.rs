//! The JSON-RPC methods: one list with their parameters, which serves to check calls, to answer `rpc.methods` and to test the
//! documentation.

mod bans;
mod configuration;
mod location;
mod node;
mod stats;
mod subscribers;
mod targets;

use super::rpc::code;
use crate::serve::Control;
use serde_json::{Map, Value, json};
use std::future::Future;
use std::pin::Pin;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
    /// Detail lines, sent as `data`.
    pub(super) details: Vec<String>,
}

impl Failure {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    fn refused(problem: impl std::fmt::Display) -> Self {
        Self::new(code::REFUSED, problem.to_string())
    }

    fn internal(problem: impl std::fmt::Display) -> Self {
        Self::new(code::INTERNAL_ERROR, problem.to_string())
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A string.
    Text,
    /// A boolean.
    Truth,
    /// A whole number in this inclusive range.
    Number(u64, u64),
}

impl Param {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Truth => value.is_boolean(),
            Self::Number(low, high) => value
                .as_u64()
                .is_some_and(|number| (low..=high).contains(&number)),
        }
    }

    fn phrase(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Number(low, high) => format!("a whole number from {low} to {high}"),
        }
    }
}

type Outcome<'c> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'c>>;

/// A method.
pub struct Method {
    /// Name in the form `noun.verb`.
    pub name: &'static str,
    /// One-sentence description.
    pub summary: &'static str,
    /// Parameters in order: name, type, whether it is required.
    pub params: &'static [(&'static str, Param, bool)],
    run: for<'c> fn(&'c Control, Arguments) -> Outcome<'c>,
}

impl std::fmt::Debug for Method {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method {
        name: "bans.add",
        summary: "Bans a source for a number of seconds, by default `bans.duration`.",
        params: &[
            ("source", Param::Text, true),
            ("seconds", Param::Number(1, bans::LONGEST), false),
        ],
        run: |control, arguments| Box::pin(async move { bans::add(control, &arguments) }),
    },
    Method {
        name: "bans.list",
        summary: "Lists banned sources with the remaining seconds.",
        params: &[],
        run: |control, _| Box::pin(async { bans::list(control) }),
    },
    Method {
        name: "bans.remove",
        summary: "Lifts the ban of a source.",
        params: &[("source", Param::Text, true)],
        run: |control, arguments| Box::pin(async move { bans::remove(control, &arguments) }),
    },
    Method {
        name: "config.reload",
        summary: "Reads the configuration file again and applies all changes or none.",
        params: &[],
        run: |control, _| Box::pin(configuration::reload(control)),
    },
    Method {
        name: "config.show",
        summary: "Returns the configuration in force, including defaults.",
        params: &[],
        run: |control, _| Box::pin(async { configuration::show(control) }),
    },
    Method {
        name: "location.get",
        summary: "Returns the bindings of one address of record.",
        params: &[("address", Param::Text, true)],
        run: |control, arguments| Box::pin(async move { location::get(control, &arguments) }),
    },
    Method {
        name: "location.list",
        summary: "Lists addresses of record with their bindings, ordered by name, one page at a time.",
        params: &[
            ("limit", Param::Number(1, 10_000), false),
            ("after", Param::Text, false),
        ],
        run: |control, arguments| Box::pin(location::list(control, arguments)),
    },
    Method {
        name: "location.remove",
        summary: "Removes all bindings of an address of record.",
        params: &[("address", Param::Text, true)],
        run: |control, arguments| Box::pin(async move { location::remove(control, &arguments) }),
    },
    Method {
        name: "node.drain",
        summary: "Stops accepting new calls (on), or accepts them again (off). The server keeps running.",
        params: &[("on", Param::Truth, false)],
        run: |control, arguments| Box::pin(node::drain(control, arguments)),
    },
    Method {
        name: "node.status",
        summary: "Returns the phase, version, listeners and other facts of the server.",
        params: &[],
        run: |control, _| Box::pin(async { Ok(node::status(control)) }),
    },
    Method {
        name: "node.version",
        summary: "Returns the version of the server.",
        params: &[],
        run: |_, _| Box::pin(async { Ok(json!({ "version": env!("CARGO_PKG_VERSION") })) }),
    },
    Method {
        name: "proxy.stats",
        summary: "Returns counters of forwarded requests.",
        params: &[],
        run: |control, _| Box::pin(async { Ok(stats::proxy(control)) }),
    },
    Method {
        name: "rpc.methods",
        summary: "Lists all methods.",
        params: &[],
        run: |_, _| Box::pin(async { Ok(catalogue()) }),
    },
    Method {
        name: "stats.summary",
        summary: "Returns the most important figures.",
        params: &[],
        run: |control, _| Box::pin(async { Ok(stats::summary(control)) }),
    },
    Method {
        name: "subscribers.count",
        summary: "Returns the number of subscribers in the database, in total or in one domain.",
        params: &[("domain", Param::Text, false)],
        run: |control, arguments| Box::pin(subscribers::count(control, arguments)),
    },
    Method {
        name: "targets.dead",
        summary: "Lists servers of next hops that failed recently and are tried last.",
        params: &[],
        run: |control, _| Box::pin(async { targets::dead(control) }),
    },
    Method {
        name: "transactions.stats",
        summary: "Returns counters of the transaction layer, in total and per worker.",
        params: &[],
        run: |control, _| Box::pin(async { Ok(stats::transactions(control)) }),
    },
];

/// Calls a method by its name.
pub(super) async fn call(control: &Control, name: &str, params: Value) -> Result<Value, Failure> {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        let near = crate::config::nearest(name, METHODS.iter().map(|method| method.name));
        let hint = near.map_or_else(
            || "rpc.methods lists all methods".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        return Err(Failure::new(
            code::METHOD_NOT_FOUND,
            format!("unknown method {name}: {hint}"),
        ));
    };
    (method.run)(control, Arguments::check(method, params)?).await
}

/// The checked parameters of a call.
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Accepts parameters by name or by position; null means omitted.
    fn check(method: &Method, params: Value) -> Result<Self, Failure> {
        let invalid = |problem: String| Failure::new(code::INVALID_PARAMS, problem);
        let mut given = match params {
            Value::Object(named) => named,
            Value::Array(values) if values.len() <= method.params.len() => method
                .params
                .iter()
                .zip(values)
                .map(|((name, ..), value)| ((*name).to_owned(), value))
                .collect(),
            _ => {
                return Err(invalid(format!(
                    "{} takes at most {} parameters",
                    method.name,
                    method.params.len()
                )));
            }
        };
        given.retain(|_, value| !value.is_null());
        let known = || method.params.iter().map(|(name, ..)| *name);
        for (name, value) in &given {
            let Some((_, param, _)) = method.params.iter().find(|(known, ..)| known == name) else {
                let hint = match (crate::config::nearest(name, known()), method.params) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, []) => "it takes no parameters".to_owned(),
                    (None, _) => format!(
                        "expected one of {}",
                        known()
                            .map(|name| format!("`{name}`"))
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
                };
                return Err(invalid(format!(
                    "{} has no parameter `{name}`: {hint}",
                    method.name
                )));
            };
            if !param.admits(value) {
                return Err(invalid(format!(
                    "`{name}` = {value}: must be {}",
                    param.phrase()
                )));
            }
        }
        let missing = method
            .params
            .iter()
            .find(|(name, _, required)| *required && !given.contains_key(*name));
        match missing {
            Some((name, ..)) => Err(invalid(format!(
                "{} requires the parameter `{name}`",
                method.name
            ))),
            None => Ok(Self(given)),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    fn truth(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }
}

/// All methods with their parameters, as `rpc.methods` returns them.
pub fn catalogue() -> Value {
    let describe = |method: &Method| {
        let params: Vec<Value> = method
            .params
            .iter()
            .map(|(name, param, required)| json!({ "name": name, "must_be": param.phrase(), "required": required }))
            .collect();
        json!({ "name": method.name, "summary": method.summary, "params": params })
    };
    Value::Array(METHODS.iter().map(describe).collect())
}
