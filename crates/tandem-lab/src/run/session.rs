//! A run from its first registration to its last: phones register, units begin and end, phones deregister.

use super::Run;
use super::commanded::Command;
use super::figures::{Figures, Kind};
use super::phones::Order;
use super::report::{Counted, Populated, Report, Second};
use super::worker::Workers;
use crate::interrupt::Interrupt;
use crate::process::own_cpu_time;
use std::fmt::{self, Display};
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long units may take to end once none begins any more, beyond what a call takes: as long as a transaction lives, and a little.
const PATIENCE: Duration = Duration::from_secs(40);
/// The same after an interruption.
const INTERRUPTED_PATIENCE: Duration = Duration::from_secs(2);
/// How long phones may take to deregister.
const LEAVING: Duration = Duration::from_secs(20);
/// How long a server may answer none of them before they give up.
const SILENCE: Duration = Duration::from_secs(3);
/// How often workers are asked how far they are.
const LOOK: Duration = Duration::from_millis(20);

/// Runs it. `tell` hears of every second, also while phones are registered. An interrupted run is reported as far as it came.
///
/// # Errors
/// Sockets cannot be opened, or phones cannot be registered.
pub fn run(
    run: &Run,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&dyn Display),
) -> io::Result<Report> {
    let mut session = Session::start(run, interrupt, |registering| tell(registering))?;
    let measured = session.measure(run, |second| {
        tell(second);
        ControlFlow::Continue(())
    });
    let left = session.end();
    let mut report = measured?;
    report.deregistered(left?);
    Ok(report)
}

/// Phones that are there, registered where that was asked for: units can be begun again and again.
pub(crate) struct Session {
    workers: Workers,
    populated: Option<Populated>,
    interrupt: Interrupt,
    stay_registered: bool,
}

/// When a part of a run began, and what had been used and lost until then.
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
    ) -> io::Result<Self> {
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
                    // Why they could not be registered says more than how many could not be deregistered.
                    let _ = session.end();
                    return Err(error);
                }
            }
        }
        Ok(session)
    }

    /// Begins units of a run that differs in nothing but these from the one that it was started with, and waits for their ends. `tell`
    /// may end it before its time; it hears of the warm-up as seconds before the start.
    pub(crate) fn measure(
        &mut self,
        run: &Run,
        mut tell: impl FnMut(&Second) -> ControlFlow<()>,
    ) -> io::Result<Report> {
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
            // What was due by the end is begun before the last of these seconds is counted.
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

    /// Units begin that are not counted. Whether the run goes on.
    fn warm_up(
        &mut self,
        run: &Run,
        begun: Instant,
        report: &mut Report,
        tell: &mut impl FnMut(&Second) -> ControlFlow<()>,
    ) -> io::Result<bool> {
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

    /// Waits for the ends of the units that have begun.
    fn finish(
        &mut self,
        run: &Run,
        start: &Mark,
        mut report: Report,
        mut tell: impl FnMut(&Second) -> ControlFlow<()>,
    ) -> io::Result<Report> {
        let call = run.plan.call;
        let ended = Instant::now();
        let mut next = ended;
        loop {
            let (figures, in_progress) = self.workers.tell()?;
            // Whoever listens cannot end it any more.
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

    /// Ends all registrations that phones have, unless they are to stay. How many were ended and how many were not.
    pub(crate) fn end(&mut self) -> io::Result<Counted> {
        if self.stay_registered {
            return Ok(Counted::default());
        }
        self.workers.deregister(LEAVING)
    }
}

impl Workers {
    /// Ends what is in progress, and all registrations that phones have, within that time.
    pub(super) fn deregister(&mut self, within: Duration) -> io::Result<Counted> {
        // What happened before is no matter of deregistering.
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

/// How far phones are that register before a run.
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
            "{:>7.1} s  registered {:>7}  failed {:>5}  to go {:>7}  put off {:>7}",
            self.seconds, self.registered, self.failed, self.left, self.put_off
        )
    }
}

/// Registers all phones. How many, and in what time.
fn populate(
    workers: &mut Workers,
    at_a_time: u32,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&Registering),
) -> io::Result<Populated> {
    let began = Instant::now();
    workers.order(&Order::Populate(at_a_time))?;
    let mut figures = Figures::default();
    let mut next = Duration::from_secs(1);
    loop {
        if interrupt.sleep_until(Instant::now() + LOOK) {
            let what = "interrupted while phones registered";
            return Err(io::Error::new(io::ErrorKind::Interrupted, what));
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
        return Err(io::Error::other(why_not_registered(&figures)));
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
        "do the subscribers exist, with these passwords, in that domain?"
    } else {
        "is there a server?"
    };
    format!(
        "{} of {} registrations failed ({}): {question}",
        ends.failed,
        ends.attempted,
        reasons.join(", ")
    )
}
