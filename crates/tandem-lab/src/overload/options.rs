//! The command line of `tandem lab overload`.

use super::Overload;
use crate::{capacity, run};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What a server still does when it is offered more than it carries, and how soon it recovers. The best rate is searched as `tandem lab
/// capacity` does it, unless --best names it.
#[derive(Clone, Debug, Args)]
#[group(id = "overload")]
pub struct Arguments {
    #[command(flatten)]
    search: capacity::Arguments,
    /// The best rate, units per second; it is searched when none is named.
    #[arg(long, global = true, value_name = "RATE")]
    best: Option<f64>,
    /// Offered rates, as multiples of the best one.
    #[arg(long, global = true, value_delimiter = ',', value_name = "FACTOR,…", default_values_t = [0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0])]
    factors: Vec<f64>,
    /// How long units begin at each offered rate that are counted.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    step_duration: Duration,
    /// How long they begin before.
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    step_warm_up: Duration,
}

impl Arguments {
    /// What is to be measured.
    ///
    /// # Errors
    /// The profile has no rate, or the arguments make no sense.
    pub fn overload(&self) -> io::Result<Overload> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        if !self.factors.iter().all(|factor| is_rate(*factor)) || self.factors.is_empty() {
            return wrong("--factors are multiples of the best rate above 0: 0.5,1,2");
        }
        if !self.best.is_none_or(is_rate) {
            return wrong("--best is a rate above 0");
        }
        if self.step_duration < Duration::from_secs(2) {
            return wrong("--step-duration must be 2s or more");
        }
        Ok(Overload {
            capacity: self.search.capacity()?,
            best: self.best,
            factors: self.factors.clone(),
            duration: self.step_duration,
            warm_up: self.step_warm_up,
        })
    }

    /// Where reports go.
    pub const fn output(&self) -> &run::Arguments {
        self.search.output()
    }

    /// Reports of other servers, shown beside this one.
    pub fn beside(&self) -> &[PathBuf] {
        &self.search.beside
    }
}
