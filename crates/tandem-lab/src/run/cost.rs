//! The cost of a run for its server: CPU time and memory of the server's processes.
//!
//! The warm-up is a run of its own. After it, the measurement waits until the server is idle, so that work which the server has put off,
//! such as saving registrations, does not count.

use super::Run;
use super::report::Report;
use super::session::Session;
use crate::process::Processes;
use serde::Serialize;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// The measured server.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Its process.
    pub process: u32,
    /// How long its CPU time still counts after the last unit, to include the cleanup of calls.
    pub linger: Duration,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// CPU time per unit in microseconds, cleanup included.
    pub cpu_us_per_unit: f64,
    /// The part of it that was spent after the last unit.
    pub cleanup_us_per_unit: f64,
    /// CPUs busy while units were started.
    pub busy: f64,
    /// Proportional set size at the end, in bytes.
    pub memory_bytes: u64,
    /// Sum of the processes' peaks (resident set size), in bytes.
    pub peak_memory_bytes: u64,
}

impl Costs {
    /// Measures a run, and what it costs the server.
    pub(super) fn measure(
        self,
        session: &mut Session,
        run: &Run,
        mut tell: impl FnMut(&super::Second) -> ControlFlow<()>,
    ) -> anyhow::Result<Report> {
        let processes = Processes::family(self.process)?;
        let mut warm_up = run.clone();
        (warm_up.warm_up, warm_up.duration) = (Duration::ZERO, run.warm_up);
        let earlier = match run.warm_up {
            Duration::ZERO => None,
            _ => Some(session.measure(&warm_up, |_| ControlFlow::Continue(()))?),
        };
        processes.wait_until_idle()?;
        let mut measured = run.clone();
        measured.warm_up = Duration::ZERO;
        let begun = processes.cpu_time()?;
        let mut report = session.measure(&measured, &mut tell)?;
        let used = processes.cpu_time()?.saturating_sub(begun);
        let (memory_bytes, peak_memory_bytes) = processes.memory()?;
        let cleanup = cleanup_time(&processes, self.linger)?;
        let per_unit = |time: Duration, units: u64| time.as_secs_f64() * 1e6 / units.max(1) as f64;
        let units = report.attempted();
        // The units of the warm-up are cleaned up as well.
        let before = earlier.as_ref().map_or(0, Report::attempted);
        let cleanup_us_per_unit = per_unit(cleanup, before + units);
        if let Some(earlier) = earlier {
            report.warm_up_seconds = run.warm_up.as_secs_f64();
            report.populated = earlier.populated;
        }
        report.cost = Some(Cost {
            cpu_us_per_unit: per_unit(used, units) + cleanup_us_per_unit,
            cleanup_us_per_unit,
            busy: used.as_secs_f64() / report.seconds.max(1e-9),
            memory_bytes,
            peak_memory_bytes,
        });
        Ok(report)
    }
}

/// CPU time for the deferred cleanup of calls: the time spent during `linger`, less the idle cost of the server in the same time.
fn cleanup_time(processes: &Processes, linger: Duration) -> anyhow::Result<Duration> {
    const AT_REST: Duration = Duration::from_secs(2);
    if linger.is_zero() {
        return Ok(Duration::ZERO);
    }
    let begin = processes.cpu_time()?;
    std::thread::sleep(linger);
    let lingered = processes.cpu_time()?;
    std::thread::sleep(AT_REST);
    let rested = processes.cpu_time()?;
    let at_rest = rested
        .saturating_sub(lingered)
        .mul_f64(linger.as_secs_f64() / AT_REST.as_secs_f64());
    Ok(lingered.saturating_sub(begin).saturating_sub(at_rest))
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "server: {:.2} us of CPU per unit ({:.2} us of it after the last unit), {:.2} CPUs busy, {:.1} MB now, {:.1} MB at its peak",
            self.cpu_us_per_unit,
            self.cleanup_us_per_unit,
            self.busy,
            mega(self.memory_bytes),
            mega(self.peak_memory_bytes)
        )
    }
}
