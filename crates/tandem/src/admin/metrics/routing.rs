//! The metrics of gateways, limits, rules and prefixes. Names in labels come from the configuration only.
use super::section::{Metrics, Scrape, Section, ServerMetric};
use crate::metrics::{Kind, Samples};
use sip_elements::metrics::DIVERSIONS;
use sip_routing::gateway::{RegistrationState, RegistrationView, State, Statistics};
use std::fmt;

pub(super) const SECTION: Section = Section {
    title: "Routing",
    introduction: "\
[routing.md](routing.md) describes gateways, limits, rules and prefixes. Labels have names from the configuration. What belongs to a name
survives a reload; if the name is gone for one, its counters start at zero when it returns.
",
    metrics: Metrics::Server(METRICS),
    notes: "",
};

const STATES: [State; 5] = [
    State::Unprobed,
    State::Active,
    State::Resting,
    State::Inactive,
    State::Disabled,
];

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_gateway_state",
        Kind::Gauge,
        "State of each gateway: 1 for the state that it has, 0 for the others",
        |server, samples| {
            let now = server.control.clock.now();
            let policy = server.running.policy.load();
            for gateway in policy.gateways.gateways() {
                let present = gateway.state(now);
                for state in STATES {
                    let labels = [gateway.name(), state.name()];
                    samples.labelled(&labels, u64::from(state == present))?;
                }
            }
            Ok(())
        },
    )
    .labels(&["gateway", "state"])
    .details("`state`: `unprobed`, `active`, `resting` (after a 503 with `Retry-After`), `inactive`, `disabled` (by an operator)"),
    ServerMetric::family(
        "tandem_gateway_calls",
        Kind::Gauge,
        "Live calls of each gateway",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut gateways = policy.gateways.gateways().iter();
            gateways.try_for_each(|it| samples.labelled(&[it.name()], it.live_calls()))
        },
    )
    .labels(&["gateway"]),
    ServerMetric::family(
        "tandem_gateway_calls_tried_total",
        Kind::Counter,
        "Calls sent to each gateway",
        |server, samples| by_gateway(server, samples, |it| it.tried),
    )
    .labels(&["gateway"]),
    ServerMetric::family(
        "tandem_gateway_outcomes_total",
        Kind::Counter,
        "Calls sent to each gateway, by outcome",
        |server, samples| {
            for_each_gateway(server, |name, it| {
                let [redirected, client, server, global] = it.failed;
                for (outcome, count) in [
                    ("2xx", it.answered),
                    ("3xx", redirected),
                    ("4xx", client),
                    ("5xx", server),
                    ("6xx", global),
                    ("timeout", it.timeouts),
                    ("transport_error", it.transport_errors),
                    ("unauthorized", it.unauthorized),
                    ("abandoned", it.abandoned),
                ] {
                    samples.labelled(&[name, outcome], count)?;
                }
                Ok(())
            })
        },
    )
    .labels(&["gateway", "outcome"])
    .details("`outcome`: `2xx`, `3xx`, `4xx`, `5xx`, `6xx`, `timeout`, `transport_error`, `unauthorized` (it did not accept `gateway.username`), `abandoned` (cancelled before a final response)"),
    ServerMetric::family(
        "tandem_gateway_failovers_total",
        Kind::Counter,
        "Calls that went on to another gateway after each gateway, by reason",
        |server, samples| {
            for_each_gateway(server, |name, it| {
                let [response, timeout, transport_error] = it.failovers;
                samples.labelled(&[name, "response"], response)?;
                samples.labelled(&[name, "timeout"], timeout)?;
                samples.labelled(&[name, "transport_error"], transport_error)
            })
        },
    )
    .labels(&["gateway", "reason"])
    .details("`reason`: `response` (`gateway.failover_codes`), `timeout`, `transport_error`"),
    ServerMetric::family(
        "tandem_gateway_skipped_total",
        Kind::Counter,
        "Times that a call chose another gateway because of a maximum, by reason",
        |server, samples| {
            for_each_gateway(server, |name, it| {
                samples.labelled(&[name, "calls"], it.full)?;
                samples.labelled(&[name, "rate"], it.rate_limited)
            })
        },
    )
    .labels(&["gateway", "reason"])
    .details("`reason`: `calls` (`gateway.max_calls`), `rate` (`gateway.calls_per_second`)"),
    ServerMetric::family(
        "tandem_gateway_challenges_total",
        Kind::Counter,
        "Challenges of each gateway with credentials, by result",
        |server, samples| {
            for_each_gateway(server, |name, it| {
                samples.labelled(&[name, "answered"], it.challenges_answered)?;
                samples.labelled(&[name, "refused"], it.challenges_refused)
            })
        },
    )
    .labels(&["gateway", "result"])
    .details("`result`: `answered`, `refused` (the credentials are wrong, or the challenge cannot be answered). Only with `gateway.username`"),
    ServerMetric::family(
        "tandem_gateway_registered",
        Kind::Gauge,
        "Whether this server is registered at each gateway with `gateway.register`: 1 or 0",
        |server, samples| {
            for_each_registration(server, |name, it| {
                let is_registered = it.state == RegistrationState::Registered;
                samples.labelled(&[name], u64::from(is_registered))
            })
        },
    )
    .labels(&["gateway"]),
    ServerMetric::family(
        "tandem_gateway_registrations_total",
        Kind::Counter,
        "Attempts to register at each gateway, by result",
        |server, samples| {
            for_each_registration(server, |name, it| {
                samples.labelled(&[name, "succeeded"], it.succeeded)?;
                samples.labelled(&[name, "failed"], it.failed)
            })
        },
    )
    .labels(&["gateway", "result"])
    .details("`result`: `succeeded`, `failed`"),
    ServerMetric::family(
        "tandem_gateway_probes_sent_total",
        Kind::Counter,
        "Probes (OPTIONS) sent to each gateway",
        |server, samples| by_gateway(server, samples, |it| it.probes_sent),
    )
    .labels(&["gateway"]),
    ServerMetric::family(
        "tandem_gateway_probes_answered_total",
        Kind::Counter,
        "Probes that each gateway answered",
        |server, samples| by_gateway(server, samples, |it| it.probes_answered),
    )
    .labels(&["gateway"])
    .details("`gateway.probe_codes` says which responses count"),
    ServerMetric::family(
        "tandem_gateway_state_changes_total",
        Kind::Counter,
        "Changes of the state of each gateway, without rests",
        |server, samples| by_gateway(server, samples, |it| it.state_changes),
    )
    .labels(&["gateway"]),
    ServerMetric::family(
        "tandem_limit_calls",
        Kind::Gauge,
        "Live calls of each limit",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut limits = policy.limits.stats();
            limits.try_for_each(|it| samples.labelled(&[it.name, it.scope.label()], it.live))
        },
    )
    .labels(&["limit", "scope"])
    .details("`scope`: `network`, `rule`, `overall` (all calls)"),
    ServerMetric::family(
        "tandem_limit_admitted_total",
        Kind::Counter,
        "New calls that each limit, and all others, admitted",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut limits = policy.limits.stats();
            limits.try_for_each(|it| samples.labelled(&[it.name, it.scope.label()], it.admitted))
        },
    )
    .labels(&["limit", "scope"]),
    ServerMetric::family(
        "tandem_limit_refused_total",
        Kind::Counter,
        "New calls that exceeded each limit, by bound",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut refused = |name, scope, calls, rate| {
                samples.labelled(&[name, scope, "calls"], calls)?;
                samples.labelled(&[name, scope, "rate"], rate)
            };
            for it in policy.limits.stats() {
                let scope = it.scope.label();
                refused(it.name, scope, it.refused_by_calls, it.refused_by_rate)?;
            }
            for it in policy.limits.each_stats() {
                let scope = it.scope.label();
                refused(scope, scope, it.refused_by_calls, it.refused_by_rate)?;
            }
            Ok(())
        },
    )
    .labels(&["limit", "scope", "bound"])
    .details("`bound`: `calls` (at the same time), `rate` (new calls per second). `scope` also `source` and `subscriber`, for the limits of each"),
    ServerMetric::family(
        "tandem_limit_keys",
        Kind::Gauge,
        "Sources and subscribers with counts of their own, by scope",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut limits = policy.limits.each_stats();
            limits.try_for_each(|it| samples.labelled(&[it.scope.label()], it.keys as u64))
        },
    )
    .labels(&["scope"])
    .details("`call_limits.source_table` and `call_limits.subscriber_table` bound them"),
    ServerMetric::family(
        "tandem_rule_matches_total",
        Kind::Counter,
        "Requests that each routing rule matched",
        |server, samples| {
            let policy = server.running.policy.load();
            let mut rules = policy.rules.iter();
            rules.try_for_each(|rule| samples.labelled(&[rule.name()], rule.matches()))
        },
    )
    .labels(&["rule"]),
    ServerMetric::family(
        "tandem_calls_diverted_total",
        Kind::Counter,
        "Calls that their callees diverted, by cause",
        |server, samples| {
            let running = &server.running;
            samples.by_label(DIVERSIONS, |cause| {
                running.sip_at(|worker| &worker.diversions, cause)
            })
        },
    )
    .labels(&["cause"])
    .details("`cause`: `always`, `busy`, `no_answer`, `not_registered` (call forwarding), `redirected` (a 3xx with `proxy.redirects = \"recurse\"`)"),
    ServerMetric::gauge("tandem_aliases", "Aliases of subscribers in memory", |server| {
        server.running.shared.services.aliases.len() as u64
    }),
    ServerMetric::gauge(
        "tandem_forwarding_subscribers",
        "Subscribers that forward calls",
        |server| server.running.shared.services.forwardings.len() as u64,
    ),
    ServerMetric::gauge("tandem_prefixes", "Prefixes in all tables", |server| {
        server.running.policy.load().prefixes.len() as u64
    }),
    ServerMetric::gauge(
        "tandem_prefix_table_bytes",
        "Memory of the prefix tables",
        |server| server.running.policy.load().prefixes.bytes() as u64,
    ),
    ServerMetric::family(
        "tandem_prefix_age_seconds",
        Kind::Gauge,
        "Time since the prefixes in use were read",
        |server, samples| match server.control.counters.prefixes.read_at() {
            Some(at) => samples.value((server.control.clock.now() - at).as_secs_f64()),
            None => samples.value(0.0),
        },
    )
    .details("0 without `prefixes.source`"),
    ServerMetric::family(
        "tandem_prefix_reloads_total",
        Kind::Counter,
        "Reloads of the prefixes alone, by result",
        |server, samples| {
            let counters = &server.control.counters.prefixes;
            samples.labelled(&["applied"], counters.reloads.get())?;
            samples.labelled(&["rejected"], counters.failures.get())
        },
    )
    .labels(&["result"])
    .details("`result`: `applied`, `rejected`. Reloads of the configuration count in `tandem_reloads_total`"),
];

/// A sample for each gateway.
fn by_gateway(
    server: &Scrape,
    samples: &mut Samples<'_>,
    value: fn(&Statistics) -> u64,
) -> fmt::Result {
    for_each_gateway(server, |name, it| samples.labelled(&[name], value(it)))
}

fn for_each_gateway(
    server: &Scrape,
    mut write: impl FnMut(&str, &Statistics) -> fmt::Result,
) -> fmt::Result {
    let now = server.control.clock.now();
    let policy = server.running.policy.load();
    for gateway in policy.gateways.gateways() {
        write(gateway.name(), &gateway.view(now).statistics)?;
    }
    Ok(())
}

fn for_each_registration(
    server: &Scrape,
    mut write: impl FnMut(&str, &RegistrationView<'_>) -> fmt::Result,
) -> fmt::Result {
    let now = server.control.clock.now();
    let policy = server.running.policy.load();
    for gateway in policy.gateways.gateways() {
        if let Some(registration) = gateway.registration_view(now) {
            write(gateway.name(), &registration)?;
        }
    }
    Ok(())
}
