//! The command line of `tandem lab capacity`.

use super::cgroup::CpuLimit;
use super::search::Search;
use super::{Capacity, Objective};
use crate::run;
use anyhow::bail;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Find the highest rate at which a server meets a service objective. The profile's --rate is the first rate tried; --duration and
/// --warm-up apply to each trial.
#[derive(Clone, Debug, Args)]
#[group(id = "search")]
pub struct Arguments {
    /// Objective: maximum 99th percentile of the delay.
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    p99: Duration,
    /// Objective: maximum share of units that fail (0.01 is one in a hundred).
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 0.001)]
    failures: f64,
    /// Delay that the objective applies to (default: for calls, from the due time to the 200, challenge included, or to the first
    /// response if they ring; otherwise the profile's delay).
    #[arg(long, global = true, value_enum)]
    delay: Option<run::Delay>,
    /// Start the server with this shell command line, and stop it at the end.
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "pid")]
    start: Option<String>,
    /// Process id of a running server.
    #[arg(long, global = true)]
    pid: Option<u32>,
    /// CPU limit of the server: 30m is 30 thousandths of a processor, 2 is two processors.
    #[arg(long, global = true, value_name = "LIMIT")]
    cpu: Option<CpuLimit>,
    /// Name of the server in the report.
    #[arg(long, global = true, default_value = "server")]
    name: String,
    /// Highest rate to try, in units per second.
    #[arg(
        long,
        global = true,
        value_name = "RATE",
        default_value_t = 1_000_000.0
    )]
    highest: f64,
    /// Factor between rates until one fails.
    #[arg(long, global = true, value_name = "FACTOR", default_value_t = 1.5)]
    growth: f64,
    /// Relative distance between the highest rate that holds and the lowest that fails at which the search ends (0.05 is 5 %).
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 0.05)]
    resolution: f64,
    /// Measurements per rate; the majority decides.
    #[arg(long, global = true, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Reports of other searches (written with --json) to show beside this one.
    #[arg(long, global = true, value_name = "FILE")]
    pub beside: Vec<PathBuf>,
    #[command(flatten)]
    traffic: run::Traffic,
}

impl Arguments {
    /// The search.
    ///
    /// # Errors
    /// The profile has no rate, or the search would never end.
    pub fn capacity(&self) -> anyhow::Result<Capacity> {
        let run = self.traffic.trial()?;
        let first = run.rate();
        if first <= 0.0 || !self.traffic.has_rate() {
            bail!(
                "this profile has no rate to vary: use call, options, register, keep-alive, itsp, sbc or tls-churn, without --window",
            );
        }
        if self.cpu.is_some() && self.start.is_none() && self.pid.is_none() {
            bail!("--cpu limits the server: add --start COMMAND or --pid PID");
        }
        if !(self.growth >= 1.01 && self.resolution >= 0.001) {
            bail!("--growth must be at least 1.01 and --resolution at least 0.001");
        }
        if !(0.0..1.0).contains(&self.failures) {
            bail!("--failures must be a share below 1, such as 0.01 for one in a hundred");
        }
        if self.highest < first {
            bail!("--highest is below the first rate (the profile's --rate)");
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

    /// The options of the traffic and of the reports.
    pub const fn traffic(&self) -> &run::Traffic {
        &self.traffic
    }
}
