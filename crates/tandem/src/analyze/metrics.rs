//! The metrics page of a running analysis. It is rendered every second, so that a scrape never waits for packets, nor packets for a scrape.

use crate::admin::METRICS_TYPE;
use crate::admin::exposition::{Exposition, Kind};
use arc_swap::ArcSwap;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_analyzer::{Analysis, Counter};
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
            ([(header::CONTENT_TYPE, METRICS_TYPE)], page.text()).into_response()
        });
        let router = Router::new().route("/metrics", metrics);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(())
    }

    /// Renders the page again.
    pub(super) fn renew(&self, analysis: &Analysis) {
        self.0.store(Arc::new(text(analysis)));
    }

    fn text(&self) -> String {
        self.0.load().as_str().to_owned()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus' numbers are floating point"
)]
fn text(analysis: &Analysis) -> String {
    let mut page = Exposition::default();
    let figures = analysis.figures();
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let bounds: Vec<f64> = figures.bounds().iter().copied().map(seconds).collect();
    let mut family = page.family(
        "tandem_analyzer_response_time_seconds",
        Kind::Histogram,
        "Time from a message received by the server to the message that it causes.",
    );
    for (step, method, times) in figures.times() {
        let labels = [("step", step.name()), ("method", method.name())];
        family.histogram(&labels, &bounds, &times.buckets, times.sum as f64 / 1e9);
    }
    let counters = analysis.counters();
    let mut family = page.family(
        "tandem_analyzer_events_total",
        Kind::Counter,
        "Packets and messages by event; described in docs/analyzer.md.",
    );
    for counter in Counter::ALL {
        family.sample(&[("event", counter.name())], counters.of(*counter));
    }
    let (messages, connections, bytes) = analysis.held();
    page.gauge(
        "tandem_analyzer_remembered_messages",
        "Messages held for matching.",
        messages,
    );
    page.gauge(
        "tandem_analyzer_connections",
        "Tracked TCP connections.",
        connections,
    );
    page.gauge(
        "tandem_analyzer_connection_bytes",
        "Bytes of TCP connections buffered until more data arrives.",
        bytes,
    );
    page.into_text()
}
