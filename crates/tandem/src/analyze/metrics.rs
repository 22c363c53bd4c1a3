//! The metrics page of a running analysis. It is rendered every second, so that a scrape never waits for packets, nor packets for a scrape.

use crate::metrics::{self, CONTENT_TYPE, Kind, Metric, Samples};
use arc_swap::ArcSwap;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};
use tandem_analyzer::{Analysis, Counter, Counters, Figures};
use tokio::net::TcpListener;

/// The rendered page.
#[derive(Clone, Default)]
pub(super) struct Page(Arc<ArcSwap<String>>);

impl Page {
    /// Opens the listener and serves the page. Must be called on a tokio runtime.
    pub(super) async fn serve(&self, address: SocketAddr) -> io::Result<()> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let message = format!(
                "cannot serve metrics on {address}: {error}; stop the program that listens there, or choose another address with --metrics"
            );
            io::Error::new(error.kind(), message)
        })?;
        let page = self.clone();
        let metrics = get(move || async move {
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.text()).into_response()
        });
        let router = Router::new().route("/metrics", metrics);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(())
    }

    /// Renders the page again.
    pub(super) fn renew(&self, analysis: &Analysis) {
        let text = metrics::page(Snapshot::of(analysis));
        self.0.store(Arc::new(text));
    }

    fn text(&self) -> String {
        self.0.load().as_str().to_owned()
    }
}

/// What a page shows.
#[derive(Debug)]
struct Snapshot {
    figures: Figures,
    counters: Counters,
    messages: usize,
    connections: usize,
    connection_bytes: usize,
}

impl Snapshot {
    fn of(analysis: &Analysis) -> Self {
        let (messages, connections, connection_bytes) = analysis.held();
        Self {
            figures: analysis.figures().clone(),
            counters: analysis.counters(),
            messages,
            connections,
            connection_bytes,
        }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = METRICS.iter();
        metrics.try_for_each(|metric| metric.encode(self, &mut encoder))
    }
}

type AnalyzerMetric = Metric<Snapshot>;

const METRICS: &[AnalyzerMetric] = &[
    AnalyzerMetric::family(
        "tandem_analyzer_response_time_seconds",
        Kind::Histogram,
        "Time from a message received by the server to the message that it causes",
        response_times,
    )
    .labels(&["step", "method"]),
    AnalyzerMetric::family(
        "tandem_analyzer_events_total",
        Kind::Counter,
        "Packets and messages by event",
        |snapshot, samples| {
            let mut events = Counter::ALL.iter();
            events.try_for_each(|event| {
                samples.labelled(&[event.name()], snapshot.counters.of(*event))
            })
        },
    )
    .labels(&["event"]),
    AnalyzerMetric::gauge(
        "tandem_analyzer_remembered_messages",
        "Messages held for matching",
        |snapshot| snapshot.messages as u64,
    ),
    AnalyzerMetric::gauge(
        "tandem_analyzer_connections",
        "Tracked TCP connections",
        |snapshot| snapshot.connections as u64,
    ),
    AnalyzerMetric::gauge(
        "tandem_analyzer_connection_bytes",
        "Bytes of TCP connections buffered until more data arrives",
        |snapshot| snapshot.connection_bytes as u64,
    ),
];

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus' numbers are floating point"
)]
fn response_times(snapshot: &Snapshot, samples: &mut Samples<'_>) -> fmt::Result {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let bounds = snapshot.figures.bounds().iter().copied().map(seconds);
    let bounds: Vec<f64> = bounds.chain([f64::INFINITY]).collect();
    for (step, method, times) in snapshot.figures.times() {
        let counts = times.buckets.iter().copied();
        let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(counts).collect();
        let labels = [step.name(), method.name()];
        samples.histogram(&labels, &buckets, times.sum as f64 / 1e9)?;
    }
    Ok(())
}
