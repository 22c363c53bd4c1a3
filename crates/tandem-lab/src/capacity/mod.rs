//! `tandem lab capacity`: the highest rate at which a server keeps a service objective.
//!
//! Each rate is a run of its own ([`crate::run`]) against the same server, which rests in between. The server may be started here,
//! under a CPU limit, so that capacities of different servers, or of parts of a processor, can be compared.

mod cgroup;
mod options;
mod report;
mod search;
mod server;

pub use cgroup::CpuLimit;
pub use options::Arguments;
pub use report::{Objective, Report, Trial};

use crate::run::{Run, Session};
use search::Search;
use server::Server;
use std::io;

/// How often a rate is tried again when the generator is to be doubted.
const ATTEMPTS: u32 = 3;

/// A search, with all that it needs.
#[derive(Clone, Debug)]
pub struct Capacity {
    name: String,
    run: Run,
    objective: Objective,
    search: Search,
    /// How often each rate is measured.
    repeats: u32,
    /// A shell's command line that starts the server.
    start: Option<String>,
    /// The server, where it runs already.
    process: Option<u32>,
    cpu: Option<CpuLimit>,
}

/// Searches. `tell` hears of every trial.
///
/// # Errors
/// The server does not start or does not answer, phones cannot be registered, or the limit cannot be set.
pub fn find(capacity: &Capacity, mut tell: impl FnMut(&Trial)) -> io::Result<Report> {
    let mut server = match &capacity.start {
        Some(command) => Server::start(command, capacity.cpu)?,
        None => Server::found(capacity.process, capacity.cpu)?,
    };
    if let Some(at) = capacity.run.server() {
        server.wait_until_ready(at, capacity.run.is_stream())?;
    }
    let mut phones = Session::start(&capacity.run, |_| ())?;
    server.wait_until_idle()?;
    let mut report = Report::new(capacity);
    let mut tried = Vec::new();
    while let Some(rate) = capacity.search.next(&tried) {
        let mut trials = Vec::new();
        for _ in 0..capacity.repeats {
            let trial = capacity.measure(&mut phones, rate, &server)?;
            tell(&trial);
            trials.push(trial);
        }
        let holds = report.add(trials);
        if !holds && report.generator_was_the_bottleneck(rate) {
            break;
        }
        tried.push((rate, holds));
    }
    report.finish(search::highest_that_held(&tried), capacity.search.to);
    Ok(report)
}

impl Capacity {
    /// One run at one rate.
    fn measure(&self, phones: &mut Session, rate: f64, server: &Server) -> io::Result<Trial> {
        let run = self.run.at_rate(rate);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let before = server.usage()?;
            let mut at_end = None;
            let report = phones.measure(&run, |second| {
                // Behind that units only end.
                if second.time < run.duration.as_secs_f64() + 0.5 {
                    at_end = server.usage().ok().flatten();
                }
            })?;
            server.wait_until_idle()?;
            let used = before.zip(at_end).map(|(before, end)| end.since(before));
            let trial = Trial::of(&report, rate, self.objective.delay, used);
            if trial.doubts.is_empty() || attempts == ATTEMPTS {
                return Ok(trial);
            }
        }
    }
}
