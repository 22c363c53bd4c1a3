//! Measures short-lived connections: connect, handshake, OPTIONS, close.

use super::client::Opener;
use super::options::{Arguments, Units};
use super::phone::first_unit;
use super::report::UnitReport;
use super::server::Server;
use super::steps::histogram;
use anyhow::bail;
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// One warm-up unit per this number of measured units.
const WARM_UP: u64 = 10;

/// The outcomes of units.
pub(super) struct Tally {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) failure: Option<String>,
    /// Microseconds from the start to the response.
    pub(super) delays: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            done: 0,
            failed: 0,
            failure: None,
            delays: histogram()?,
        })
    }

    pub(super) fn count(
        &mut self,
        result: Result<anyhow::Result<Duration>, tokio::task::JoinError>,
    ) {
        match result.map_err(anyhow::Error::from).flatten() {
            Ok(delay) => {
                self.done += 1;
                self.delays.saturating_record(delay.as_micros() as u64);
            }
            Err(error) => {
                self.failed += 1;
                self.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// Runs units as fast as possible, with a limited number in progress.
pub(super) fn run(arguments: &Arguments, units: Units) -> anyhow::Result<UnitReport> {
    let server = Server::find(arguments)?;
    let opener = Opener::new(&arguments.target, units)?;
    let runtime = wakeful_runtime()?;
    let warm_up = arguments.count / WARM_UP;
    runtime.block_on(drive(&opener, units, warm_up, arguments.window))?;
    let before = server.cpu_at_rest()?;
    let begun = Instant::now();
    let tally = runtime.block_on(drive(&opener, units, arguments.count, arguments.window))?;
    let elapsed = begun.elapsed();
    // The last connections are still closing.
    let cpu = server.cpu_at_rest()?.saturating_sub(before);
    let each = cpu.as_secs_f64() / tally.done.max(1) as f64;
    Ok(UnitReport {
        units,
        key: (units != Units::Plain).then_some(arguments.target.key),
        done: tally.done,
        failed: tally.failed,
        failure: tally.failure,
        server_cpu_us_each: each * 1e6,
        per_second_and_core: 1.0 / each.max(f64::MIN_POSITIVE),
        per_second: tally.done as f64 / elapsed.as_secs_f64(),
        delay_p50_us: tally.delays.value_at_quantile(0.5),
        delay_p99_us: tally.delays.value_at_quantile(0.99),
    })
}

async fn drive(
    opener: &Arc<Opener>,
    units: Units,
    count: u64,
    window: u64,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::new()?;
    let mut numbers = 0..count;
    let mut going = JoinSet::new();
    loop {
        while (going.len() as u64) < window
            && let Some(number) = numbers.next()
        {
            going.spawn(unit(Arc::clone(opener), units, number));
        }
        match going.join_next().await {
            Some(result) => tally.count(result),
            None => return Ok(tally),
        }
    }
}

/// Runs one unit. Returns the time to its response.
pub(super) async fn unit(
    opener: Arc<Opener>,
    units: Units,
    number: u64,
) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut client = opener.open().await?;
    client.options(first_unit(number, 0)).await?;
    let delay = begun.elapsed();
    // The first units of a run have nothing to resume.
    if units == Units::Full && client.is_resumed() {
        bail!("a session was resumed although full handshakes were requested");
    }
    let is_resumed = client.is_resumed();
    client.close().await?;
    if units == Units::Resumed && !is_resumed && number >= FIRST_ONES {
        bail!("a session was not resumed");
    }
    Ok(delay)
}

/// Units that may find no ticket, because they begin before the first unit has ended.
const FIRST_ONES: u64 = 1_000;

/// A runtime that never sleeps. Waking a sleeping client would cost the server CPU time, which would count as the server's.
pub(super) fn wakeful_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    Ok(runtime)
}
