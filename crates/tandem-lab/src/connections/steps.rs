//! Measures held connections: their memory, step by step, and whether calls reach them.

use super::client::{Client, Opener};
use super::held::Held;
use super::line::Line;
use super::options::{Arguments, Units};
use super::phone::{call, enlist, first_unit};
use super::report::{CallReport, HeldReport, Step};
use super::server::Server;
use anyhow::bail;
use hdrhistogram::Histogram;
use std::time::Instant;

/// Descriptors of a server that are not connections: listeners, its database, its admin interface.
const OTHERS: u64 = 100;

/// The calling user, who has no connection registered.
const CALLER: u64 = 0;

/// Holds connections in steps.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<HeldReport> {
    let server = Server::find(arguments)?;
    let target = &arguments.target;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let opener = Opener::new(target, Units::of(target.transport))?;
    let mut caller = runtime.block_on(enlist(&opener, CALLER))?;
    let first = 1 + arguments.registrations;
    let registration_bytes = if target.unregistered {
        0.0
    } else {
        let before = server.memory_at_rest()?;
        runtime.block_on(register_alone(&mut caller, arguments.registrations))?;
        let after = server.memory_at_rest()?;
        after.saturating_sub(before) as f64 / arguments.registrations.max(1) as f64
    };
    let base = server.memory_at_rest()?;
    let mut held = Held::new(target);
    let mut steps = Vec::new();
    let mut left_out = None;
    let limit = server.descriptor_limit()?;
    for wanted in &arguments.steps {
        if *wanted + OTHERS > limit {
            left_out = Some(format!(
                "skipped {wanted} connections: the server may open only {limit} descriptors (RLIMIT_NOFILE; `ulimit -Hn` shows how far it \
                 can be raised)"
            ));
            break;
        }
        steps.push(step(&server, &mut held, first, *wanted)?);
    }
    let mut points = vec![(0.0, base as f64)];
    points.extend(
        steps
            .iter()
            .map(|step| (step.connections as f64, step.memory_bytes as f64)),
    );
    let line = Line::through(&points);
    let calls = if target.unregistered {
        None
    } else {
        let last = first..first + held.open();
        Some(runtime.block_on(deliver(&mut caller, last, arguments.calls))?)
    };
    Ok(HeldReport {
        transport: target.transport.protocol().via_token(),
        registration_bytes,
        base_bytes: base,
        steps,
        left_out,
        connection_bytes: line.map(|line| line.each - registration_bytes),
        bytes_each: line.map(|line| line.each),
        r_squared: line.map(|line| line.r_squared),
        calls,
    })
}

/// Registers subscribers over one connection, to measure the cost of a registration alone.
async fn register_alone(caller: &mut Client, count: u64) -> anyhow::Result<()> {
    for user in 1..=count {
        caller.register(first_unit(user, user)).await?;
    }
    Ok(())
}

/// Opens connections up to `wanted`.
fn step(server: &Server, held: &mut Held<'_>, first: u64, wanted: u64) -> anyhow::Result<Step> {
    let before = held.open();
    let cpu_before = server.cpu_at_rest()?;
    let begun = Instant::now();
    let (failed, reason) = held.add(first + before, wanted.saturating_sub(before))?;
    let elapsed = begun.elapsed();
    if failed > 0 {
        bail!(
            "{failed} of {} connections could not be opened: {reason}",
            wanted - before
        );
    }
    let cpu = server.cpu()?.saturating_sub(cpu_before);
    let memory_bytes = server.memory_at_rest()?;
    // One connection is the caller's.
    if let Some(counted) = server.connections()?
        && counted != held.open() + 1
    {
        bail!(
            "{} connections are open, but the server counts {counted}",
            held.open() + 1
        );
    }
    let opened = (wanted - before).max(1) as f64;
    Ok(Step {
        connections: wanted,
        memory_bytes,
        accepted_per_second: opened / elapsed.as_secs_f64(),
        server_cpu_us_each: cpu.as_secs_f64() * 1e6 / opened,
    })
}

/// Calls randomly chosen users.
async fn deliver(
    caller: &mut Client,
    users: std::ops::Range<u64>,
    count: u64,
) -> anyhow::Result<CallReport> {
    let mut report = CallReport::default();
    let mut delays = histogram()?;
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    for number in 0..count {
        let callee = users.start + draw.next() % (users.end - users.start).max(1);
        report.made += 1;
        match call(caller, number, callee).await {
            Ok(call) if call.is_right => {
                report.answered += 1;
                delays.saturating_record(call.delay.as_micros() as u64);
            }
            Ok(_) => report.wrong += 1,
            Err(error) => {
                report.failed += 1;
                report.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
    report.delays(&delays);
    Ok(report)
}

/// For microseconds, up to a minute.
pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(60_000_000, 3)?)
}

/// A pseudo-random sequence (xorshift), the same in each run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
