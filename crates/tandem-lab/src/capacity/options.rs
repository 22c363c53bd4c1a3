//! The command line of a search.

use super::cgroup::CpuLimit;
use super::search::Search;
use super::{Capacity, Objective};
use crate::run;
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The highest rate at which a server keeps a service objective. The profile's --rate is the first one tried; --duration and --warm-up
/// are those of each trial.
#[derive(Clone, Debug, Args)]
#[group(id = "search")]
pub struct Arguments {
    #[command(flatten)]
    run: run::Arguments,
    /// The objective: 99 of a hundred wait no longer.
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    p99: Duration,
    /// The objective: the share of units that may fail (0.01: one in a hundred).
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 0.001)]
    failures: f64,
    /// The delay that the objective is about. Of calls it is the one from when they were due to their answer, challenge included,
    /// or to the first response where they ring; of other units that of the profile.
    #[arg(long, global = true, value_enum)]
    delay: Option<run::Delay>,
    /// Start the server with this command line (of sh), and end it at the end.
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "pid")]
    start: Option<String>,
    /// The server runs already, as this process.
    #[arg(long, global = true)]
    pid: Option<u32>,
    /// What the server may use of the processors: 30m is thirty thousandths of one, 2 is two.
    #[arg(long, global = true, value_name = "LIMIT")]
    cpu: Option<CpuLimit>,
    /// The server's name in the report.
    #[arg(long, global = true, default_value = "server")]
    name: String,
    /// No higher rate is tried.
    #[arg(
        long,
        global = true,
        value_name = "RATE",
        default_value_t = 1_000_000.0
    )]
    highest: f64,
    /// Each rate is so many times the one before, until one fails.
    #[arg(long, global = true, value_name = "FACTOR", default_value_t = 1.5)]
    growth: f64,
    /// The search ends when what holds and what fails lie so close (0.05: five in a hundred).
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 0.05)]
    resolution: f64,
    /// How often each rate is measured: the median decides.
    #[arg(long, global = true, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Reports of other searches (their --json), shown beside this one.
    #[arg(long, global = true, value_name = "FILE")]
    pub beside: Vec<PathBuf>,
}

impl Arguments {
    /// What is to be searched.
    ///
    /// # Errors
    /// The profile has no rate, or the search would have no end.
    pub fn capacity(&self) -> io::Result<Capacity> {
        let run = self.run.trial()?;
        let first = run.rate();
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if first <= 0.0 || !self.run.has_rate() {
            return wrong(
                "the profile has no rate to change: call, options, register, keep-alive, itsp, sbc and tls-churn have one",
            );
        }
        if self.cpu.is_some() && self.start.is_none() && self.pid.is_none() {
            return wrong("--cpu limits the server: --start it here, or name its --pid");
        }
        if !(self.growth >= 1.01 && self.resolution >= 0.001) {
            return wrong("--growth must be 1.01 or more, and --resolution 0.001 or more");
        }
        if !(0.0..1.0).contains(&self.failures) {
            return wrong("--failures is a share: 0.01 for one in a hundred");
        }
        if self.highest < first {
            return wrong("--highest is below the first rate (--rate of the profile)");
        }
        Ok(Capacity {
            name: self.name.clone(),
            objective: Objective {
                delay: self.delay.unwrap_or_else(|| run.delay_from_due()),
                p99_us: self.p99.as_micros() as u64,
                failures: self.failures,
            },
            run,
            search: Search {
                from: first,
                to: self.highest,
                growth: self.growth,
                resolution: self.resolution,
            },
            repeats: self.repeats,
            start: self.start.clone(),
            process: self.pid,
            cpu: self.cpu,
        })
    }

    /// Where reports go, and whether seconds are told.
    pub const fn output(&self) -> &run::Arguments {
        &self.run
    }
}
