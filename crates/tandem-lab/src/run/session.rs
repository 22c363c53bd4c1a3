//! The lifecycle of a run: phones register, units start and end, phones deregister.

use super::Run;
use super::commanded::Command;
use super::figures::{Figures, Kind};
use super::phones::Order;
use super::report::{Counted, Populated, Report, Second};
use super::worker::Workers;
use crate::interrupt::Interrupt;
use crate::process::own_cpu_time;
use anyhow::bail;
use std::fmt::{self, Display};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long units may take to end after the last one started, beyond the length of a call: a little more than the lifetime of a
/// transaction.
const PATIENCE: Duration = Duration::from_secs(40);
/// The same after an interruption.
const INTERRUPTED_PATIENCE: Duration = Duration::from_secs(2);
/// How long phones may take to deregister.
const LEAVING: Duration = Duration::from_secs(20);
/// How long the server may be silent before deregistration is abandoned.
const SILENCE: Duration = Duration::from_secs(3);
/// Interval between requests for the workers' progress.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a profile. `tell` receives every second, also of the initial registration. An interrupted run is reported up to the interruption.
///
/// # Errors
/// Sockets cannot be opened, or phones cannot be registered.
pub fn run(
    run: &Run,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&dyn Display),
) -> anyhow::Result<Report> {
    let mut session = Session::start(run, interrupt, |registering| tell(registering))?;
    interrupt.sleep_until(Instant::now() + run.settle);
    let tell = |second: &Second| {
        tell(second);
        ControlFlow::Continue(())
    };
    let measured = match run.costs {
        Some(costs) => costs.measure(&mut session, run, tell),
        None => session.measure(run, tell),
    };
    let left = session.end();
    let mut report = measured?;
    report.deregistered(left?);
    Ok(report)
}

/// Phones with their sockets, registered if the run asks for it. It can measure any number of times.
pub(crate) struct Session {
    workers: Workers,
    populated: Option<Populated>,
    interrupt: Interrupt,
    stay_registered: bool,
}

/// Start of a measurement, with the resources used and messages lost before it.
struct Mark {
    began: Instant,
    cpu: Duration,
    lost: super::Losses,
}

impl Mark {
    fn now(workers: &Workers) -> Self {
        Self {
            began: Instant::now(),
            cpu: own_cpu_time(),
            lost: workers.losses(),
        }
    }
}

impl Session {
    /// Opens sockets, and registers phones.
    pub(crate) fn start(
        run: &Run,
        interrupt: &Interrupt,
        tell: impl FnMut(&Registering),
    ) -> anyhow::Result<Self> {
        let mut session = Self {
            workers: Workers::start(run)?,
            populated: None,
            interrupt: interrupt.clone(),
            stay_registered: run.stay_registered,
        };
        if let Some(at_a_time) = run.populate {
            match populate(&mut session.workers, at_a_time, interrupt, tell) {
                Ok(populated) => session.populated = Some(populated),
                Err(error) => {
                    // Report the failed registration rather than a failed deregistration.
                    let _ = session.end();
                    return Err(error);
                }
            }
        }
        Ok(session)
    }

    /// Starts the units of a run, and waits until they end. The run may differ from the first one only in its traffic and durations.
    /// `tell` may end it early; it receives the warm-up as seconds before 0.
    pub(crate) fn measure(
        &mut self,
        run: &Run,
        mut tell: impl FnMut(&Second) -> ControlFlow<()>,
    ) -> anyhow::Result<Report> {
        let mut report = Report::new(run, self.populated.take());
        if run.profile.activities.is_empty() {
            report.finish(0, &super::Losses::default());
            return Ok(report);
        }
        let begun = Instant::now();
        self.workers.begin(run)?;
        let mut goes_on = self.warm_up(run, begun, &mut report, &mut tell)?;
        let start = Mark::now(&self.workers);
        let end = begun + run.warm_up + run.duration;
        let mut next = start.began;
        while goes_on && Instant::now() < end {
            next = (next + Duration::from_secs(1)).min(end);
            let is_interrupted = self.interrupt.sleep_until(next);
            // Units that were due by the end are started before the last second is counted.
            if is_interrupted || Instant::now() >= end {
                break;
            }
            let (figures, in_progress) = self.workers.tell()?;
            let second = report.add(start.began.elapsed(), &figures, in_progress);
            goes_on = tell(second).is_continue();
        }
        let is_over = goes_on && !self.interrupt.is_raised();
        let order = if is_over { Order::End } else { Order::Break };
        self.workers.order(&order)?;
        let elapsed = start.began.elapsed();
        report.measured(elapsed, own_cpu_time().saturating_sub(start.cpu));
        if self.interrupt.is_raised() {
            report.interrupted(run);
            self.workers.order(&Order::Do(Command::HangUp))?;
        }
        self.finish(run, &start, report, tell)
    }

    /// Starts units that do not count. Returns whether the run goes on.
    fn warm_up(
        &mut self,
        run: &Run,
        begun: Instant,
        report: &mut Report,
        tell: &mut impl FnMut(&Second) -> ControlFlow<()>,
    ) -> anyhow::Result<bool> {
        let start = begun + run.warm_up;
        let mut next = begun;
        while next < start {
            next = (next + Duration::from_secs(1)).min(start);
            if self.interrupt.sleep_until(next) {
                return Ok(false);
            }
            let (figures, in_progress) = self.workers.tell()?;
            let before_start = start.saturating_duration_since(Instant::now());
            let second = report.second(-before_start.as_secs_f64(), &figures, in_progress);
            if tell(&second).is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the started units end.
    fn finish(
        &mut self,
        run: &Run,
        start: &Mark,
        mut report: Report,
        mut tell: impl FnMut(&Second) -> ControlFlow<()>,
    ) -> anyhow::Result<Report> {
        let call = run.plan.call;
        let ended = Instant::now();
        let mut next = ended;
        loop {
            let (figures, in_progress) = self.workers.tell()?;
            // The listener cannot end the run any more.
            let _ = tell(report.add(start.began.elapsed(), &figures, in_progress));
            let patience = if self.interrupt.is_raised() {
                INTERRUPTED_PATIENCE
            } else {
                PATIENCE + call.ringing + call.talking
            };
            if in_progress == 0 || ended.elapsed() > patience {
                report.finish(in_progress, &self.workers.losses().since(start.lost));
                return Ok(report);
            }
            next += Duration::from_secs(1);
            if self.interrupt.is_raised() {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            } else {
                self.interrupt.sleep_until(next);
            }
        }
    }

    /// Deregisters all phones, unless they should stay registered. Returns the successes and failures.
    pub(crate) fn end(&mut self) -> anyhow::Result<Counted> {
        if self.stay_registered {
            return Ok(Counted::default());
        }
        self.workers.deregister(LEAVING)
    }
}

impl Workers {
    /// Abandons all units, and deregisters all phones within this time.
    pub(super) fn deregister(&mut self, within: Duration) -> anyhow::Result<Counted> {
        // Discards earlier counts.
        self.tell()?;
        let began = Instant::now();
        self.order(&Order::Leave)?;
        let mut figures = Figures::default();
        let mut heard = began;
        loop {
            let (part, in_progress) = self.tell()?;
            if part.ends(Kind::Register).succeeded > 0 {
                heard = Instant::now();
            }
            figures.add(&part);
            let is_over = began.elapsed() > within || heard.elapsed() > SILENCE.min(within);
            if in_progress == 0 || is_over {
                let succeeded = figures.ends(Kind::Register).succeeded;
                let failed = figures.ends(Kind::Register).failed;
                return Ok(Counted {
                    succeeded,
                    failed: failed + in_progress as u64,
                });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Progress of the initial registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registering {
    seconds: f64,
    registered: u64,
    failed: u64,
    left: usize,
    put_off: u64,
}

impl Display for Registering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7.1} s  registered {:>7}  failed {:>5}  remaining {:>7}  503 responses {:>7}",
            self.seconds, self.registered, self.failed, self.left, self.put_off
        )
    }
}

/// Registers all phones.
fn populate(
    workers: &mut Workers,
    at_a_time: u32,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&Registering),
) -> anyhow::Result<Populated> {
    let began = Instant::now();
    workers.order(&Order::Populate(at_a_time))?;
    let mut figures = Figures::default();
    let mut next = Duration::from_secs(1);
    loop {
        if interrupt.sleep_until(Instant::now() + LOOK) {
            let what = "interrupted while phones were registering";
            bail!(what);
        }
        let (part, in_progress) = workers.tell()?;
        figures.add(&part);
        if in_progress == 0 {
            break;
        }
        if began.elapsed() >= next {
            let ends = figures.ends(Kind::Register);
            tell(&Registering {
                seconds: began.elapsed().as_secs_f64(),
                registered: ends.succeeded,
                failed: ends.failed,
                left: in_progress,
                put_off: figures.put_off,
            });
            next += Duration::from_secs(1);
        }
    }
    let ends = figures.ends(Kind::Register);
    if ends.failed > 0 {
        bail!(why_not_registered(&figures));
    }
    Ok(Populated {
        phones: ends.succeeded,
        seconds: began.elapsed().as_secs_f64(),
        put_off: figures.put_off,
        shared: figures.shared_registrations,
    })
}

fn why_not_registered(figures: &Figures) -> String {
    let ends = figures.ends(Kind::Register);
    let reasons = figures.failures.iter();
    let reasons: Vec<String> = reasons
        .map(|((_, reason), count)| format!("{reason}: {count}"))
        .collect();
    let was_heard = |(_, reason): &(&str, String)| {
        !matches!(&**reason, "timeout" | "transport" | "unreachable")
    };
    let question = if figures.failures.keys().any(was_heard) {
        "do the subscribers exist, with these passwords, in this domain?"
    } else {
        "is the server running at this address?"
    };
    format!(
        "{} of {} registrations failed ({}): {question}",
        ends.failed,
        ends.attempted,
        reasons.join(", ")
    )
}
