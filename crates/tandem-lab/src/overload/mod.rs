//! `tandem lab overload`: goodput of a server that is offered more than it can handle, and how soon it recovers.
//!
//! Units begin when they are due, whatever the server does, and their requests are retransmitted as RFC 3261 says. Under such load,
//! servers that accept more work than they can finish collapse.

mod options;
mod recovery;
mod report;

pub use options::Arguments;
pub use report::{Point, Recovery, Report};

use crate::capacity::{Capacity, Server};
use crate::interrupt::Interrupt;
use crate::run::{Rate, Run, Session};
use anyhow::anyhow;
use std::ops::ControlFlow;
use std::time::Duration;

/// Multiples of the best rate before and after the drop from which the server recovers.
const DROP: (f64, f64) = (3.0, 0.5);

/// A measurement and its parameters.
#[derive(Clone, Debug)]
pub struct Overload {
    capacity: Capacity,
    best: Option<f64>,
    factors: Vec<f64>,
    duration: Duration,
    warm_up: Duration,
}

/// Runs the measurement. `tell` receives every step.
///
/// # Errors
/// The server does not start or does not respond, phones cannot be registered, the limit cannot be set, or no best rate is found.
pub fn measure(
    overload: &Overload,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<Report> {
    let (server, mut phones) = overload.capacity.prepare(interrupt)?;
    let measured = overload.steps(&mut phones, &server, interrupt, &mut tell);
    // Report a failed measurement rather than a failed deregistration.
    let left = phones.end();
    let report = measured?;
    left?;
    Ok(report)
}

impl Overload {
    fn steps(
        &self,
        phones: &mut Session,
        server: &Server,
        interrupt: &Interrupt,
        tell: &mut impl FnMut(&str),
    ) -> anyhow::Result<Report> {
        let (best, remarks) = match self.best {
            Some(best) => (best, Vec::new()),
            None => self.find_best(phones, server, interrupt, tell)?,
        };
        let mut report = Report::new(&self.capacity, best, remarks);
        for factor in &self.factors {
            let run = self.run_at(Rate::Constant(best * factor), self.warm_up, self.duration);
            let point = step(phones, server, &run, *factor)?;
            tell(&point.to_string());
            report.points.push(point);
            if interrupt.is_raised() {
                report.remarks.push("interrupted".into());
                return Ok(report);
            }
        }
        let recovery = self.recovery(phones, server, best)?;
        tell(&recovery.to_string());
        report.recovery = Some(recovery);
        Ok(report)
    }

    fn find_best(
        &self,
        phones: &mut Session,
        server: &Server,
        interrupt: &Interrupt,
        tell: &mut impl FnMut(&str),
    ) -> anyhow::Result<(f64, Vec<String>)> {
        let search = &self.capacity;
        let found =
            search.search_with(phones, server, interrupt, |trial| tell(&trial.to_string()))?;
        let nothing = || {
            let why = found.remarks.join("; ");
            anyhow!("found no best rate: {why}")
        };
        Ok((found.capacity.ok_or_else(nothing)?, found.remarks.clone()))
    }

    fn run_at(&self, rate: Rate, warm_up: Duration, duration: Duration) -> Run {
        let mut run = self.capacity.run().with_rate(rate);
        (run.warm_up, run.duration) = (warm_up, duration);
        run
    }

    /// Offers three times the best rate, then half of it.
    fn recovery(
        &self,
        phones: &mut Session,
        server: &Server,
        best: f64,
    ) -> anyhow::Result<Recovery> {
        let rate = Rate::Steps {
            from: best * DROP.0,
            step: best * (DROP.1 - DROP.0),
            every: self.duration,
        };
        // Slightly less than two steps, so that no third one begins.
        let run = self.run_at(rate, Duration::ZERO, self.duration.mul_f64(1.9));
        let report = phones.measure(&run, |_| ControlFlow::Continue(()))?;
        server.wait_until_idle()?;
        Ok(Recovery::of(&report, self.duration, best, DROP))
    }
}

/// Measures one offered rate.
fn step(phones: &mut Session, server: &Server, run: &Run, factor: f64) -> anyhow::Result<Point> {
    let mut before = server.usage()?;
    let mut at_end = None;
    let seconds = run.duration.as_secs_f64();
    let report = phones.measure(run, |second| {
        let usage = server.usage().ok().flatten();
        if second.time <= 0.0 {
            before = usage;
        } else if second.time < seconds + 0.5 {
            at_end = usage;
        }
        ControlFlow::Continue(())
    })?;
    server.wait_until_idle()?;
    let used = before.zip(at_end).map(|(before, end)| end.since(before));
    Ok(Point::of(&report, factor, run.rate(), used))
}
