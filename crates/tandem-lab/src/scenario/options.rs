//! The command line of `tandem lab scenario`.

use super::course::Course;
use super::generator::Generator;
use super::measured::Measured;
use super::pairs::{Pairing, Phones};
use super::validate::Rules;
use crate::run::{Rate, Spacing};
use clap::{Args, Subcommand, ValueEnum};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The operations on scenario files.
#[derive(Clone, Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Generate a scenario file: calls with caller, callee and time.
    #[command(after_help = "Examples:
  tandem lab scenario generate day --peak 50 --output day.csv")]
    Generate(GenerateArguments),
    /// Check a scenario file: format, phones, order, waits against rates.
    #[command(after_help = "Examples:
  tandem lab scenario validate day.csv --phones 1000")]
    Validate(ValidateArguments),
    /// Draw a scenario file as SVG.
    #[command(after_help = "Examples:
  tandem lab scenario plot day.csv --output day.svg")]
    Plot(PlotArguments),
}

/// The scenario to generate.
#[derive(Clone, Debug, Args)]
pub struct GenerateArguments {
    #[command(subcommand)]
    shape: Shape,
    #[command(flatten)]
    phones: PhoneArguments,
    /// Convention for caller and callee.
    #[arg(long, global = true, value_enum, default_value = "any")]
    convention: Convention,
    /// Spacing of arrivals within a second.
    #[arg(long, global = true, value_enum, default_value = "regular")]
    spacing: Spacing,
    /// Seed for everything random.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Output file (default: standard output).
    #[arg(long, short, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
struct PhoneArguments {
    /// Number of phones.
    #[arg(long, global = true, default_value_t = 1_000)]
    phones: u32,
    /// Number of the first phone.
    #[arg(long, global = true, default_value_t = 0)]
    first: u32,
    /// Phones per pod, for --convention even-pod-calls-odd.
    #[arg(long, global = true, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pod: u32,
}

/// The rate over time.
#[derive(Clone, Debug, Subcommand)]
enum Shape {
    /// A constant rate.
    #[command(after_help = "Examples:
  tandem lab scenario generate constant --rate 5 --duration 10min --output calls.csv")]
    Constant {
        /// Calls per second.
        #[arg(long, default_value_t = 1.0)]
        rate: f64,
        /// Duration of the scenario.
        #[arg(long, value_name = "TIME", default_value = "30min", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
    /// A rate that rises in steps.
    #[command(after_help = "Examples:
  tandem lab scenario generate step --rate 12 --step 6 --every 5min --output calls.csv")]
    Step {
        /// Initial calls per second.
        #[arg(long, default_value_t = 12.0)]
        rate: f64,
        /// Increase per step in calls per second.
        #[arg(long, default_value_t = 6.0, allow_negative_numbers = true)]
        step: f64,
        /// Duration of a step.
        #[arg(long, value_name = "TIME", default_value = "5min", value_parser = humantime::parse_duration)]
        every: Duration,
        /// Duration of the scenario.
        #[arg(long, value_name = "TIME", default_value = "30min", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
    /// The shape of measured days.
    #[command(after_help = "Examples:
  tandem lab scenario generate day --peak 50 --duration 1h --output day.csv")]
    Day {
        /// File with lines `timestamp_utc_ms,calls` at equal intervals (default: a week of Milan; Telecom Italia, Barlacchi et al. 2015,
        /// Open Database License 1.0).
        #[arg(long, value_name = "FILE")]
        measured: Option<PathBuf>,
        /// First day of the file to use, from 1.
        #[arg(long, default_value_t = 1)]
        day: u32,
        /// Number of days.
        #[arg(long, default_value_t = 1)]
        days: u32,
        /// Calls per second at the highest point.
        #[arg(long, default_value_t = 50.0)]
        peak: f64,
        /// Duration to which the days are compressed or stretched (default: their original duration).
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        duration: Option<Duration>,
    },
}

/// Convention for caller and callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Convention {
    /// Any phone calls any other.
    Any,
    /// A phone of an even pod calls its counterpart in the next pod: 4607 calls 4707.
    EvenPodCallsOdd,
}

impl Convention {
    const fn pairing(self, pod: u32) -> Pairing {
        match self {
            Self::Any => Pairing::Any,
            Self::EvenPodCallsOdd => Pairing::EvenPodCallsOdd { pod },
        }
    }
}

impl GenerateArguments {
    /// The calls.
    ///
    /// # Errors
    /// An invalid argument, or the first invalid line of the measured file.
    pub fn generator(&self) -> Result<Generator, String> {
        Generator::new(
            self.course()?,
            self.phones(),
            self.convention.pairing(self.phones.pod),
            self.spacing,
            self.seed,
        )
    }

    /// Number of digits of phone numbers.
    pub fn digits(&self) -> usize {
        self.phones().digits()
    }

    const fn phones(&self) -> Phones {
        Phones {
            first: self.phones.first,
            count: self.phones.phones,
        }
    }

    fn course(&self) -> Result<Course, String> {
        match &self.shape {
            Shape::Constant { rate, duration } => Course::of(Rate::Constant(*rate), *duration),
            Shape::Step {
                rate,
                step,
                every,
                duration,
            } => {
                let (from, step, every) = (*rate, *step, *every);
                Course::of(Rate::Steps { from, step, every }, *duration)
            }
            Shape::Day {
                measured,
                day,
                days,
                peak,
                duration,
            } => {
                let measured = measured
                    .as_deref()
                    .map_or_else(|| Ok(Measured::milano()), open);
                measured?.course(*day, *days, *peak, *duration)
            }
        }
    }
}

fn open(path: &Path) -> Result<Measured, String> {
    let name = path.display();
    let file = File::open(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    Measured::read(BufReader::new(file)).map_err(|wrong| format!("{name}:{wrong}"))
}

/// The scenario to check.
#[derive(Clone, Debug, Args)]
pub struct ValidateArguments {
    /// Scenario file; - reads standard input.
    pub file: PathBuf,
    /// Number of phones (default: any phone in the file).
    #[arg(long)]
    phones: Option<u32>,
    /// Number of the first phone.
    #[arg(long, requires = "phones", default_value_t = 0)]
    first: u32,
    /// Convention for caller and callee.
    #[arg(long, value_enum, default_value = "any")]
    convention: Convention,
    /// Phones per pod, for --convention even-pod-calls-odd.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pod: u32,
    /// Spacing of arrivals within a second.
    #[arg(long, value_enum, default_value = "regular")]
    spacing: Spacing,
}

impl ValidateArguments {
    /// The rules to check.
    pub fn rules(&self) -> Rules {
        let first = self.first;
        Rules {
            phones: self.phones.map(|count| Phones { first, count }),
            pairing: self.convention.pairing(self.pod),
            spacing: self.spacing,
        }
    }
}

/// The scenario to draw.
#[derive(Clone, Debug, Args)]
pub struct PlotArguments {
    /// Scenario file; - reads standard input.
    pub file: PathBuf,
    /// Output file (default: standard output).
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
