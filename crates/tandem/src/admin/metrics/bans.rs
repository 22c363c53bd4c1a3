//! The metrics of failures and bans.
use super::section::{Metrics, Section, ServerMetric};
use crate::metrics::Kind;
use sip_elements::bans::Offence;

pub(super) const SECTION: Section = Section {
    title: "Bans",
    introduction: "[bans.md](bans.md) describes how bans work.\n",
    metrics: Metrics::Server(METRICS),
    notes: "",
};

const METRICS: &[ServerMetric] = &[
    ServerMetric::family(
        "tandem_offences_total",
        Kind::Counter,
        "Failures with a proven source, by reason",
        |server, samples| {
            let counts = server.running.shared.bans.stats().offences;
            let mut offences = Offence::ALL.iter().zip(counts);
            offences.try_for_each(|(offence, count)| samples.labelled(&[offence.label()], count))
        },
    )
    .labels(&["reason"])
    .details(
        "`reason`: `wrong_password`, `unknown_user`, `pause` (credentials during a pause, not checked), `malformed` (data that is not SIP \
         over a connection)",
    ),
    ServerMetric::counter(
        "tandem_offences_unlogged_total",
        "Failures that were not logged",
        |server| server.running.shared.bans.stats().unlogged,
    )
    .details("More than 20 came from one source in a window, or logging fell behind"),
    ServerMetric::family(
        "tandem_offenders",
        Kind::Gauge,
        "Remembered failures by kind",
        |server, samples| {
            let stats = server.running.shared.bans.stats();
            samples.labelled(&["source"], stats.sources as u64)?;
            samples.labelled(&["name"], stats.names as u64)
        },
    )
    .labels(&["kind"])
    .details("`kind`: `source`, `name` (source and user name)"),
    ServerMetric::gauge("tandem_banned_sources", "Banned sources", |server| {
        server.running.shared.bans.stats().banned as u64
    }),
    ServerMetric::counter(
        "tandem_bans_total",
        "Bans because of too many failures",
        |server| server.running.shared.bans.stats().automatic,
    ),
    ServerMetric::counter(
        "tandem_bans_forgotten_total",
        "Failures and bans that were evicted for newer ones, or not recorded because the table was full",
        |server| server.running.shared.bans.stats().forgotten,
    )
    .details("See `bans.table`"),
    ServerMetric::counter(
        "tandem_offences_unattributed_total",
        "Wrong passwords through edge proxies and trusted peers that did not record the client's address",
        |server| server.running.shared.bans.stats().unattributed,
    )
    .details("They cause no pause"),
];
