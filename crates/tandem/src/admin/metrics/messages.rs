//! The metrics of messages: how many, and what became of them.
use super::section::{Metrics, Scrape, Section, ServerMetric};
use crate::metrics::{Kind, Samples};
use sip_elements::metrics::{CHALLENGES, CLASSES, DROPS, REFUSALS};
use sip_message::Method;
use sip_transport::Counter;
use std::fmt;

pub(super) const SECTION: Section = Section {
    title: "Messages",
    introduction: "",
    metrics: Metrics::Server(METRICS),
    notes: "\
Reasons for dropped messages:

- `not_sip`: data that cannot be parsed as a SIP message.
- `malformed_response`: a malformed response, which cannot be answered.
- `stray_response`, `stray_ack`: no match on this server.
- `forged_response`: a branch that looks like Tandem's but is not, or a response from an address that its request was not sent to.
- `keep_alive`: empty packets from phones, and STUN. Tandem answers STUN Binding requests. Both are harmless.
- `too_many_headers`: too many header fields. Requests among them are answered 400 where that is possible.
- `no_target`: an ACK whose next hop cannot be found.
- `banned`, `scanner`: see [bans](bans.md).
- `waiting_full`: a response that found no room among the responses of its call that wait for the control plane.
- `waited`: a request from an [edge](edge.md) that waited here for T1 or longer. The client has repeated it, and the edge may have given the repetition to another node.
",
};

/// Response classes in the order of the counters.
const CLASS_LABELS: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_requests_total",
        Kind::Counter,
        "Requests received, including retransmissions, by method",
        |server, samples| {
            let running = &server.running;
            samples.by_label(Method::LABELS, |method| {
                running.sip_at(|worker| &worker.requests, method)
            })
        },
    )
    .labels(&["method"]),
    ServerMetric::family(
        "tandem_responses_sent_total",
        Kind::Counter,
        "Responses sent, by status code",
        responses_sent,
    )
    .labels(&["code"])
    .details("Codes that never occurred are not listed"),
    ServerMetric::family(
        "tandem_responses_total",
        Kind::Counter,
        "Responses sent, by method of the request and status class",
        responses_by_method,
    )
    .labels(&["method", "class"])
    .details("Pairs that never occurred are not listed"),
    ServerMetric::family(
        "tandem_challenges_total",
        Kind::Counter,
        "Challenges (401 and 407) sent, by cause",
        |server, samples| {
            let running = &server.running;
            samples.by_label(CHALLENGES, |cause| {
                running.sip_at(|worker| &worker.challenges, cause)
            })
        },
    )
    .labels(&["cause"])
    .details(
        "`cause`: `first` (no credentials for the realm), `stale` (right password, old nonce), `failed` (invalid credentials: a wrong \
         password, an unknown user, or a nonce that Tandem did not issue)",
    ),
    ServerMetric::family(
        "tandem_responses_received_total",
        Kind::Counter,
        "Responses received, by status class",
        |server, samples| {
            let running = &server.running;
            samples.by_label(CLASS_LABELS, |class| {
                running.sip_at(|worker| &worker.responses_received, class)
            })
        },
    )
    .labels(&["class"])
    .details("`class`: `1xx` to `6xx`"),
    ServerMetric::family(
        "tandem_dropped_total",
        Kind::Counter,
        "Messages dropped without a response, by reason",
        |server, samples| {
            let running = &server.running;
            samples.by_label(DROPS, |reason| {
                running.sip_at(|worker| &worker.drops, reason)
            })
        },
    )
    .labels(&["reason"])
    .details("The reasons are listed below"),
    ServerMetric::family(
        "tandem_refused_total",
        Kind::Counter,
        "Requests rejected by policy, with 403 unless something else is said, by reason",
        |server, samples| {
            let running = &server.running;
            samples.by_label(REFUSALS, |reason| {
                running.sip_at(|worker| &worker.refusals, reason)
            })
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `nameless` (From names a local domain and no user), `impostor` (credentials of another user), `stranger` and \
         `stranger_method` (`proxy.strangers`, `proxy.stranger_methods`; also a NOTIFY inside a call that is not about a transfer), `relay` \
         (another domain, `proxy.foreign`), `route` (a Route past this server), `path` (a Path from a peer outside `proxy.edge_proxies`), \
         `rule` (a routing rule, with its status), `limit` (a limit of calls, with 503, 486 or 480), \
         `diversion` (a call that its callee diverts to where it may not call; the caller gets the response of the phones, or 480), \
         `event` (`proxy.refused_events`, with 489)",
    ),
    ServerMetric::counter(
        "tandem_refused_full_total",
        "Requests rejected with 503 because a table was full or the server was draining",
        |server| server.running.sip(|worker| &worker.refused_full),
    ),
    ServerMetric::gauge(
        "tandem_edges",
        "Edges of the fleet that have probed this node from a proven address in the last 24 hours",
        |server| server.running.shared.edges.known() as u64,
    ),
    ServerMetric::counter(
        "tandem_round_edges_total",
        "Messages for an edge that has stopped probing, sent through another edge",
        |server| server.running.sip(|worker| &worker.round_edges),
    ),
    ServerMetric::counter(
        "tandem_shares_refused_total",
        "Requests refused because their source had used its share of a table or of the held bytes",
        |server| server.running.sip(|worker| &worker.shares_refused),
    ),
    ServerMetric::counter(
        "tandem_responses_withheld_total",
        "Responses withheld from unproven UDP senders because three times the bytes of the request had been sent",
        |server| server.running.sip(|worker| &worker.responses_withheld),
    )
    .details("An unproven sender is neither authenticated nor a trusted peer"),
    ServerMetric::gauge(
        "tandem_held_bytes",
        "Bytes of messages held by transactions, forwarded requests and waiting requests",
        |server| server.running.sip(|worker| &worker.held_bytes),
    ),
    ServerMetric::gauge(
        "tandem_held_sources",
        "Sources that the server holds something for",
        |server| server.running.sip(|worker| &worker.held_sources),
    )
    .details(
        "An address counts once for what is unproven, once for its subscribers, and once for its dialogs",
    ),
];

fn responses_sent(server: &Scrape, samples: &mut Samples<'_>) -> fmt::Result {
    for index in 0..600 {
        let running = &server.running;
        let count = running.sip_at(|worker| &worker.responses_sent, index);
        if count > 0 {
            samples.labelled(&[&(index + 100).to_string()], count)?;
        }
    }
    Ok(())
}

fn responses_by_method(server: &Scrape, samples: &mut Samples<'_>) -> fmt::Result {
    for (index, method) in Method::LABELS.iter().enumerate() {
        for (class, label) in CLASS_LABELS.iter().enumerate() {
            let workers = server.running.metrics.iter();
            let counters = workers.filter_map(|it| it.responses_by_method.get(index)?.get(class));
            let count: u64 = counters.map(Counter::value).sum();
            if count > 0 {
                samples.labelled(&[method, label], count)?;
            }
        }
    }
    Ok(())
}
