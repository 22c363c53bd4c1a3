//! The command line of `tandem lab overload`.

use super::Overload;
use crate::{capacity, run};
use anyhow::bail;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Measure goodput of a server that is offered more than it can handle, and how soon it recovers. Without --best, the best rate is
/// searched as by tandem lab capacity.
#[derive(Clone, Debug, Args)]
#[group(id = "overload")]
pub struct Arguments {
    /// Best rate in units per second (default: searched).
    #[arg(long, global = true, value_name = "RATE")]
    best: Option<f64>,
    /// Offered rates, as multiples of the best rate.
    #[arg(long, global = true, value_delimiter = ',', value_name = "FACTOR,…", default_values_t = [0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0])]
    factors: Vec<f64>,
    /// Duration of the measurement at each offered rate.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    step_duration: Duration,
    /// Warm-up before each measurement.
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    step_warm_up: Duration,
    #[command(flatten)]
    search: capacity::Arguments,
}

impl Arguments {
    /// The measurement.
    ///
    /// # Errors
    /// The profile has no rate, or the arguments are invalid.
    pub fn overload(&self) -> anyhow::Result<Overload> {
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        if !self.factors.iter().all(|factor| is_rate(*factor)) || self.factors.is_empty() {
            bail!("--factors must be multiples of the best rate above 0, such as 0.5,1,2");
        }
        if !self.best.is_none_or(is_rate) {
            bail!("--best must be above 0");
        }
        if self.step_duration < Duration::from_secs(2) {
            bail!("--step-duration must be at least 2s");
        }
        Ok(Overload {
            capacity: self.search.capacity()?,
            best: self.best,
            factors: self.factors.clone(),
            duration: self.step_duration,
            warm_up: self.step_warm_up,
        })
    }

    /// The options of the traffic and of the reports.
    pub const fn traffic(&self) -> &run::Traffic {
        self.search.traffic()
    }

    /// Reports of other servers to show beside this one.
    pub fn beside(&self) -> &[PathBuf] {
        &self.search.beside
    }
}
