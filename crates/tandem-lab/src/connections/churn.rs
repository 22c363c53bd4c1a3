//! Measures calls while connections open and close beside them.

use super::client::{Client, Opener};
use super::options::{Arguments, Units};
use super::phone::{call, enlist, serve};
use super::report::{CallReport, ChurnReport};
use super::server::Server;
use super::steps::histogram;
use super::units::{Tally, unit, wakeful_runtime};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Phones that stay registered and are called in turn.
const PHONES: u64 = 100;
/// Interval between calls.
const CALL_EVERY: Duration = Duration::from_millis(10);

/// Measures calls alone first, then calls beside connections that open and close.
pub(super) fn run(arguments: &Arguments, rate: u32) -> anyhow::Result<ChurnReport> {
    let server = Server::find(arguments)?;
    let units = Units::of(arguments.target.transport);
    let opener = Opener::new(&arguments.target, units)?;
    let runtime = wakeful_runtime()?;
    let mut caller = runtime.block_on(gather(&opener))?;
    let length = Duration::from_secs(arguments.seconds);
    let mut numbers = 0;
    let before = server.cpu_at_rest()?;
    let alone = runtime.block_on(calls(&mut caller, length, &mut numbers))?;
    let cpu_alone = server.cpu_at_rest()?.saturating_sub(before);
    let before = server.cpu()?;
    let (beside, tally) = runtime.block_on(async {
        let come_and_go = come_and_go(&opener, units, rate, length);
        let (beside, tally) = tokio::join!(calls(&mut caller, length, &mut numbers), come_and_go);
        anyhow::Ok((beside?, tally?))
    })?;
    let cpu = server.cpu_at_rest()?.saturating_sub(before);
    let each = cpu.saturating_sub(cpu_alone).as_secs_f64() * 1e6 / tally.done.max(1) as f64;
    Ok(ChurnReport {
        transport: arguments.target.transport.protocol().via_token(),
        rate,
        done: tally.done,
        failed: tally.failed,
        failure: tally.failure,
        server_cpu_us_each: each,
        server_busy: cpu.as_secs_f64() / length.as_secs_f64(),
        delay_p50_us: tally.delays.value_at_quantile(0.5),
        delay_p99_us: tally.delays.value_at_quantile(0.99),
        calls_alone: alone,
        calls_beside: beside,
    })
}

/// The caller, and the callees that respond until the runtime ends.
async fn gather(opener: &Opener) -> anyhow::Result<Client> {
    for user in 1..=PHONES {
        let phone = enlist(opener, user).await?;
        tokio::spawn(serve(phone, user));
    }
    enlist(opener, 0).await
}

/// Calls one phone after another for a while. Delays count from when a call was due.
async fn calls(
    caller: &mut Client,
    length: Duration,
    numbers: &mut u64,
) -> anyhow::Result<CallReport> {
    let begun = Instant::now();
    let mut report = CallReport::default();
    let mut delays = histogram()?;
    loop {
        let due = begun + CALL_EVERY * u32::try_from(report.made).unwrap_or(u32::MAX);
        if due >= begun + length {
            report.delays(&delays);
            return Ok(report);
        }
        sleep_until(due).await;
        let late = due.elapsed();
        report.made += 1;
        *numbers += 1;
        match call(caller, *numbers, 1 + *numbers % PHONES).await {
            Ok(call) if call.is_right => {
                report.answered += 1;
                delays.saturating_record((late + call.delay).as_micros() as u64);
            }
            Ok(_) => report.wrong += 1,
            Err(error) => {
                report.failed += 1;
                report.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// Starts units when they are due, regardless of how many are in progress.
async fn come_and_go(
    opener: &Arc<Opener>,
    units: Units,
    rate: u32,
    length: Duration,
) -> anyhow::Result<Tally> {
    let begun = Instant::now();
    let mut tally = Tally::new()?;
    let mut going = JoinSet::new();
    for number in 0..u64::from(rate) * length.as_secs() {
        sleep_until(begun + Duration::from_secs(1).mul_f64(number as f64 / f64::from(rate))).await;
        going.spawn(unit(Arc::clone(opener), units, number));
        while let Some(result) = going.try_join_next() {
            tally.count(result);
        }
    }
    while let Some(result) = going.join_next().await {
        tally.count(result);
    }
    Ok(tally)
}
