//! `tandem lab capacity`: the highest rate at which a server meets a service objective.
//!
//! Each rate is a run of its own ([`crate::run`]) against the same server, which rests in between. The search can start the server under
//! a CPU limit, so that the capacities of different servers, or of parts of a processor, can be compared.

mod backlog;
mod cgroup;
mod options;
mod report;
mod search;
mod server;
mod watch;

pub use cgroup::CpuLimit;
pub use options::Arguments;
pub use report::{Objective, Report, Trial};

use crate::interrupt::Interrupt;
use crate::run::{Run, Session};
use search::Search;
pub(crate) use server::{Server, Usage};
use watch::Watch;

/// How often a rate is repeated when the generator may have been the bottleneck.
const ATTEMPTS: u32 = 3;

/// A search and its parameters.
#[derive(Clone, Debug)]
pub struct Capacity {
    name: String,
    run: Run,
    objective: Objective,
    search: Search,
    /// Measurements per rate.
    repeats: u32,
    /// Shell command line that starts the server.
    start: Option<String>,
    /// The server, if it is already running.
    process: Option<u32>,
    cpu: Option<CpuLimit>,
}

/// Runs the search. `tell` receives every trial.
///
/// # Errors
/// The server does not start or does not respond, phones cannot be registered, or the limit cannot be set.
pub fn find(
    capacity: &Capacity,
    interrupt: &Interrupt,
    tell: impl FnMut(&Trial),
) -> anyhow::Result<Report> {
    let (server, mut phones) = capacity.prepare(interrupt)?;
    let found = capacity.search_with(&mut phones, &server, interrupt, tell);
    // Remaining contacts would burden the next search.
    let left = phones.end();
    let mut report = found?;
    if left?.failed > 0 {
        report.remarks.push(
            "some phones failed to deregister: the server keeps their contacts until they expire"
                .into(),
        );
    }
    Ok(report)
}

impl Capacity {
    /// The server, once it responds, and the phones registered with it.
    pub(crate) fn prepare(&self, interrupt: &Interrupt) -> anyhow::Result<(Server, Session)> {
        let mut server = match &self.start {
            Some(command) => Server::start(command, self.cpu)?,
            None => Server::found(self.process, self.cpu)?,
        };
        if let Some(at) = self.run.server() {
            server.wait_until_ready(at, self.run.is_stream())?;
        }
        let phones = Session::start(&self.run, interrupt, |_| ())?;
        Ok((server, phones))
    }

    pub(crate) const fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn cpu(&self) -> Option<CpuLimit> {
        self.cpu
    }

    /// Searches with phones that are registered.
    pub(crate) fn search_with(
        &self,
        phones: &mut Session,
        server: &Server,
        interrupt: &Interrupt,
        mut tell: impl FnMut(&Trial),
    ) -> anyhow::Result<Report> {
        server.wait_until_idle()?;
        let mut report = Report::new(self);
        let mut tried = Vec::new();
        while let Some(rate) = self.search.next(&tried) {
            let mut trials = Vec::new();
            while !interrupt.is_raised() && !report.is_decided(&trials, self.repeats) {
                let trial = self.measure(phones, rate, server)?;
                tell(&trial);
                trials.push(trial);
            }
            if interrupt.is_raised() {
                report.interrupted(rate);
                break;
            }
            let holds = report.add(trials);
            if !holds && report.generator_was_the_bottleneck(rate) {
                break;
            }
            tried.push((rate, holds));
        }
        report.finish(search::highest_that_held(&tried), self.search.to);
        Ok(report)
    }

    fn measure(&self, phones: &mut Session, rate: f64, server: &Server) -> anyhow::Result<Trial> {
        let run = self.run.at_rate(rate);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut watch = Watch::new(self, rate, server.usage()?);
            let report = phones.measure(&run, |second| watch.look(second, server))?;
            server.wait_until_idle()?;
            let trial = Trial::of(&report, rate, self.objective.delay, &watch.verdict());
            if trial.doubts.is_empty() || attempts == ATTEMPTS {
                return Ok(trial);
            }
        }
    }
}
