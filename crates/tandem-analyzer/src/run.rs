//! Feeds packets from the source to the analysis.

use crate::analysis::Analysis;
use crate::capture::{Filter, Packet, Ring, file};
use crate::export::Exports;
use crate::options::{Plan, Source};
use crate::report::Report;
use crate::servers::Servers;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for packets before checking for the end.
const PATIENCE: Duration = Duration::from_millis(100);
/// Interval of progress reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// Packets of a file between two checks for the end.
const OFTEN: u64 = 65_536;

/// Runs the analysis until the packets end, the time is over, or `stop` is set. During a live capture, `tell` receives the state once a
/// second.
///
/// # Errors
/// The source cannot be read, or samples cannot be written. All results except written samples are lost.
pub fn analyze(plan: &Plan, stop: &AtomicBool, tell: impl FnMut(&Analysis)) -> io::Result<Report> {
    let exports = Exports::open(plan.samples.as_deref(), plan.messages.as_deref())?;
    let mut analysis = Analysis::new(
        Servers::new(plan.servers.clone()),
        plan.ports.clone(),
        plan.buckets.clone(),
        plan.bounds,
        secret(),
        exports,
    );
    let began = Instant::now();
    let cut_off = match &plan.source {
        Source::File(path) => {
            let opened = File::open(path).map_err(|error| about(path, &error))?;
            let end = from_file(opened, &mut analysis, stop);
            end.map_err(|error| about(path, &error))?
        }
        Source::Input => from_file(io::stdin(), &mut analysis, stop)
            .map_err(|error| about(Path::new("standard input"), &error))?,
        Source::Interface {
            name,
            ring,
            duration,
        } => {
            let filter = Filter::new(&plan.ports);
            let ring = Ring::open(name, *ring, &filter)?;
            live(ring, &mut analysis, *duration, stop, tell)?;
            false
        }
    };
    let elapsed = began.elapsed();
    analysis.finish()?;
    Ok(Report::new(&analysis, elapsed, cut_off))
}

/// Returns whether the file ends in the middle of a packet.
fn from_file(
    input: impl io::Read + Send,
    analysis: &mut Analysis,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let mut failure = None;
    let end = file::read(input, |packet: Packet<'_>| {
        analysis.packet(&packet);
        if !packet.moment.frame.is_multiple_of(OFTEN) {
            return true;
        }
        failure = analysis.failure();
        failure.is_none() && !stop.load(Ordering::Relaxed)
    })?;
    match failure.or_else(|| analysis.failure()) {
        Some(failure) => Err(failure),
        None => Ok(end == file::End::CutOff),
    }
}

fn live(
    mut ring: Ring,
    analysis: &mut Analysis,
    duration: Option<Duration>,
    stop: &AtomicBool,
    mut tell: impl FnMut(&Analysis),
) -> io::Result<()> {
    let began = Instant::now();
    let mut told = began;
    tell(analysis);
    while !stop.load(Ordering::Relaxed)
        && duration.is_none_or(|duration| began.elapsed() < duration)
    {
        ring.read(PATIENCE, |packet| analysis.packet(packet))?;
        if let Some(failure) = analysis.failure() {
            return Err(failure);
        }
        if told.elapsed() >= INTERVAL {
            told = Instant::now();
            analysis.dropped_by_kernel(ring.drops()?.dropped);
            analysis.flush()?;
            tell(analysis);
        }
    }
    // Packets that the kernel still holds.
    let ended = Instant::now();
    while ended.elapsed() < INTERVAL && ring.read(PATIENCE, |packet| analysis.packet(packet))? {}
    analysis.dropped_by_kernel(ring.drops()?.dropped);
    Ok(())
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A secret that no sender of packets knows.
fn secret() -> (u64, u64) {
    let random = || RandomState::new().hash_one(0_u8);
    (random(), random())
}
