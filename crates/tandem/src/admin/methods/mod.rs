//! The JSON-RPC methods: one list with their parameters, which serves to check calls, to answer `rpc.methods` and to test the
//! documentation.

mod bans;
mod configuration;
mod dialogs;
mod location;
mod method;
mod node;
mod routing;
mod services;
mod stats;
mod subscribers;
mod targets;

pub use method::Method;
pub use tandem_http::rpc::{Param, Params};

use crate::control::Control;
use method::Run;
use serde_json::{Value, json};
use tandem_http::rpc::{Arguments, Failure, code};

/// All methods.
pub const METHODS: &[Method] = &[
    Method {
        name: "aliases.delete",
        summary: "Removes an alias.",
        params: &[("alias", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::delete(control, running, arguments))
        }),
    },
    Method {
        name: "aliases.list",
        summary: "Lists aliases with their subscribers, ordered by name, one page at a time.",
        params: &[
            ("limit", Param::Number(1, 10_000), false),
            ("after", Param::Text, false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::list(control, running, arguments))
        }),
    },
    Method {
        name: "aliases.set",
        summary: "Lets an address or a number lead to a subscriber.",
        params: &[
            ("alias", Param::Text, true),
            ("subscriber", Param::Text, true),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::set(control, running, arguments))
        }),
    },
    Method {
        name: "bans.add",
        summary: "Bans a source for a number of seconds, by default `bans.duration`.",
        params: &[
            ("source", Param::Text, true),
            ("seconds", Param::Number(1, bans::LONGEST), false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { bans::add(control, running, &arguments) })
        }),
    },
    Method {
        name: "bans.list",
        summary: "Lists banned sources with the remaining seconds.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(async { Ok(bans::list(control, running)) })
        }),
    },
    Method {
        name: "bans.remove",
        summary: "Lifts the ban of a source.",
        params: &[("source", Param::Text, true)],
        run: Run::WhenRunning(|_, running, arguments| {
            Box::pin(async move { bans::remove(running, &arguments) })
        }),
    },
    Method {
        name: "config.reload",
        summary: "Reads the configuration file again and applies all changes or none.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(configuration::reload(control, running))
        }),
    },
    Method {
        name: "config.show",
        summary: "Returns the configuration in force, including defaults.",
        params: &[],
        run: Run::Always(|control, _| Box::pin(async { configuration::show(control) })),
    },
    Method {
        name: "dialogs.end",
        summary: "Ends a call: BYE to both parties, or CANCEL if it is not answered yet.",
        params: &[("id", Param::Text, true), ("reason", Param::Text, false)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(dialogs::end(control, running, arguments))
        }),
    },
    Method {
        name: "dialogs.get",
        summary: "Returns all that is known about a call in progress.",
        params: &[("id", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(dialogs::get(control, running, arguments))
        }),
    },
    Method {
        name: "dialogs.list",
        summary: "Lists calls in progress, one page at a time.",
        params: &[
            ("limit", Param::Number(1, 10_000), false),
            ("after", Param::Text, false),
            ("user", Param::Text, false),
            ("call_id", Param::Text, false),
            ("state", Param::Text, false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(dialogs::list(control, running, arguments))
        }),
    },
    Method {
        name: "dialogs.stats",
        summary: "Returns counts of calls, in total and per worker.",
        params: &[],
        run: Run::WhenRunning(|_, running, _| Box::pin(async { Ok(dialogs::stats(running)) })),
    },
    Method {
        name: "forwarding.delete",
        summary: "Ends all call forwarding of a subscriber.",
        params: &[("subscriber", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::stop_forwarding(control, running, arguments))
        }),
    },
    Method {
        name: "forwarding.set",
        summary: "Changes where calls to a subscriber go instead. An empty target ends that kind of forwarding.",
        params: &[
            ("subscriber", Param::Text, true),
            ("always", Param::Text, false),
            ("busy", Param::Text, false),
            ("no_answer", Param::Text, false),
            ("seconds", Param::Number(1, services::LONGEST_RING), false),
            ("not_registered", Param::Text, false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::forward(control, running, arguments))
        }),
    },
    Method {
        name: "forwarding.show",
        summary: "Returns where calls to a subscriber go instead.",
        params: &[("subscriber", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(services::show(control, running, arguments))
        }),
    },
    Method {
        name: "gateways.disable",
        summary: "Gives a gateway no new calls and no probes until it is enabled; its calls go on.",
        params: &[("name", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { routing::disable(control, running, &arguments) })
        }),
    },
    Method {
        name: "gateways.enable",
        summary: "Gives a gateway calls again that was disabled, and probes it.",
        params: &[("name", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { routing::enable(control, running, &arguments) })
        }),
    },
    Method {
        name: "gateways.get",
        summary: "Returns the state, the calls and the statistics of one gateway, and the groups that have it as a member.",
        params: &[("name", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { routing::get(control, running, &arguments) })
        }),
    },
    Method {
        name: "gateways.list",
        summary: "Lists gateways with state, calls and statistics.",
        params: &[("state", Param::Text, false)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { routing::list(control, running, &arguments) })
        }),
    },
    Method {
        name: "gateways.reload",
        summary: "Reads the table of gateways of a Kamailio again, and the prefixes, and replaces both or nothing.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(routing::reload_gateways(control, running))
        }),
    },
    Method {
        name: "groups.list",
        summary: "Lists gateway groups with their members.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(async { Ok(routing::groups(control, running)) })
        }),
    },
    Method {
        name: "limits.list",
        summary: "Lists limits for calls with what they admitted and refused.",
        params: &[],
        run: Run::WhenRunning(|_, running, _| Box::pin(async { Ok(routing::limits(running)) })),
    },
    Method {
        name: "location.get",
        summary: "Returns the bindings of one address of record.",
        params: &[("address", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { location::get(control, running, &arguments) })
        }),
    },
    Method {
        name: "location.list",
        summary: "Lists addresses of record with their bindings, ordered by name, one page at a time.",
        params: &[
            ("limit", Param::Number(1, 10_000), false),
            ("after", Param::Text, false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(location::list(control, running, arguments))
        }),
    },
    Method {
        name: "location.remove",
        summary: "Removes all bindings of an address of record.",
        params: &[("address", Param::Text, true)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { location::remove(control, running, &arguments) })
        }),
    },
    Method {
        name: "node.drain",
        summary: "Stops accepting new calls (on), or accepts them again (off). The server keeps running.",
        params: &[("on", Param::Truth, false)],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(node::drain(control, running, arguments))
        }),
    },
    Method {
        name: "node.status",
        summary: "Returns the phase, version, listeners and other facts of the server.",
        params: &[],
        run: Run::Always(|control, _| Box::pin(async { Ok(node::status(control)) })),
    },
    Method {
        name: "node.version",
        summary: "Returns the version of the server.",
        params: &[],
        run: Run::Always(|_, _| {
            Box::pin(async { Ok(json!({ "version": env!("CARGO_PKG_VERSION") })) })
        }),
    },
    Method {
        name: "prefixes.lookup",
        summary: "Returns all prefixes of a number in a table, by default `default`; the first one decides.",
        params: &[("number", Param::Text, true), ("table", Param::Text, false)],
        run: Run::WhenRunning(|_, running, arguments| {
            Box::pin(async move { routing::lookup(running, &arguments) })
        }),
    },
    Method {
        name: "prefixes.reload",
        summary: "Reads the prefixes again and replaces them as a whole, or changes nothing and names all wrong rows.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| Box::pin(routing::reload(control, running))),
    },
    Method {
        name: "prefixes.stats",
        summary: "Returns the size of the prefix table, where it comes from, and when it was read.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(async { Ok(routing::stats(control, running)) })
        }),
    },
    Method {
        name: "proxy.stats",
        summary: "Returns counters of forwarded requests.",
        params: &[],
        run: Run::WhenRunning(|_, running, _| Box::pin(async { Ok(stats::proxy(running)) })),
    },
    Method {
        name: "routes.explain",
        summary: "Returns which rule, prefix, groups and gateways a request would take, and why.",
        params: &[
            ("uri", Param::Text, true),
            ("method", Param::Text, false),
            ("from", Param::Text, false),
            ("to", Param::Text, false),
            ("source", Param::Text, false),
            ("listener", Param::Text, false),
            ("header", Param::Text, false),
            ("call_id", Param::Text, false),
        ],
        run: Run::WhenRunning(|control, running, arguments| {
            Box::pin(async move { routing::explain(control, running, &arguments) })
        }),
    },
    Method {
        name: "rpc.methods",
        summary: "Lists all methods.",
        params: &[],
        run: Run::Always(|_, _| Box::pin(async { Ok(catalogue()) })),
    },
    Method {
        name: "rules.list",
        summary: "Lists routing rules in order, with what they do and how often they matched.",
        params: &[],
        run: Run::WhenRunning(|_, running, _| Box::pin(async { Ok(routing::rules(running)) })),
    },
    Method {
        name: "stats.summary",
        summary: "Returns the most important figures.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(async { Ok(stats::summary(control, running)) })
        }),
    },
    Method {
        name: "subscribers.count",
        summary: "Returns the number of subscribers in the database, in total or in one domain.",
        params: &[("domain", Param::Text, false)],
        run: Run::WhenRunning(|_, running, arguments| {
            Box::pin(subscribers::count(running, arguments))
        }),
    },
    Method {
        name: "targets.dead",
        summary: "Lists servers of next hops that failed recently and are tried last.",
        params: &[],
        run: Run::WhenRunning(|control, running, _| {
            Box::pin(async { Ok(targets::dead(control, running)) })
        }),
    },
    Method {
        name: "transactions.stats",
        summary: "Returns counters of the transaction layer, in total and per worker.",
        params: &[],
        run: Run::WhenRunning(|_, running, _| Box::pin(async { Ok(stats::transactions(running)) })),
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
    let arguments = Arguments::check(method.name, method.params, params)?;
    match method.run {
        Run::Always(run) => run(control, arguments).await,
        Run::WhenRunning(run) => {
            let running = control.running();
            let running = running.ok_or_else(|| Failure::refused("the server is starting"))?;
            run(control, &running, arguments).await
        }
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
