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

/// What is done with scenario files.
#[derive(Clone, Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Make a scenario: who calls whom, and when.
    Generate(GenerateArguments),
    /// Find what is wrong with a scenario: format, phones, order, waits against rates.
    Validate(ValidateArguments),
    /// Draw a scenario, as SVG.
    Plot(PlotArguments),
}

/// A scenario to make.
#[derive(Clone, Debug, Args)]
pub struct GenerateArguments {
    #[command(subcommand)]
    shape: Shape,
    #[command(flatten)]
    phones: PhoneArguments,
    /// Who may call whom.
    #[arg(long, global = true, value_enum, default_value = "any")]
    convention: Convention,
    /// How the calls of a second lie in it.
    #[arg(long, global = true, value_enum, default_value = "regular")]
    spacing: Spacing,
    /// Makes what is random repeatable.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Where it is written; standard output when none is named.
    #[arg(long, short, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
struct PhoneArguments {
    /// How many phones there are.
    #[arg(long, global = true, default_value_t = 1_000)]
    phones: u32,
    /// Number of the first phone.
    #[arg(long, global = true, default_value_t = 0)]
    first: u32,
    /// Phones of a pod, for --convention even-pod-calls-odd.
    #[arg(long, global = true, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pod: u32,
}

/// How the rate goes over time.
#[derive(Clone, Debug, Subcommand)]
enum Shape {
    /// The same rate all the time.
    Constant {
        /// Calls per second.
        #[arg(long, default_value_t = 1.0)]
        rate: f64,
        /// How long.
        #[arg(long, value_name = "TIME", default_value = "30min", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
    /// A rate that rises by steps.
    Step {
        /// Calls per second, at first.
        #[arg(long, default_value_t = 12.0)]
        rate: f64,
        /// More with each step, per second.
        #[arg(long, default_value_t = 6.0, allow_negative_numbers = true)]
        step: f64,
        /// How long a step lasts.
        #[arg(long, value_name = "TIME", default_value = "5min", value_parser = humantime::parse_duration)]
        every: Duration,
        /// How long.
        #[arg(long, value_name = "TIME", default_value = "30min", value_parser = humantime::parse_duration)]
        duration: Duration,
    },
    /// The shape of measured days.
    Day {
        /// Lines `timestamp_utc_ms,calls`, equally far from each other; a week of Milan when none is named (Telecom Italia, Barlacchi et
        /// al. 2015, Open Database License 1.0).
        #[arg(long, value_name = "FILE")]
        measured: Option<PathBuf>,
        /// The first day of the file to take, from 1.
        #[arg(long, default_value_t = 1)]
        day: u32,
        /// How many days.
        #[arg(long, default_value_t = 1)]
        days: u32,
        /// Calls per second where they are most.
        #[arg(long, default_value_t = 50.0)]
        peak: f64,
        /// How long it all takes, compressed or stretched; when nothing is said, as long as it took.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        duration: Option<Duration>,
    },
}

/// Who may call whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Convention {
    /// Anybody calls anybody else.
    Any,
    /// A phone of an even pod calls its like in the next pod: 4607 calls 4707.
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
    /// What makes no sense, or which line of the measured file cannot be used.
    pub fn generator(&self) -> Result<Generator, String> {
        Generator::new(
            self.course()?,
            self.phones(),
            self.convention.pairing(self.phones.pod),
            self.spacing,
            self.seed,
        )
    }

    /// Digits that numbers of phones are written with.
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

/// A scenario to look at.
#[derive(Clone, Debug, Args)]
pub struct ValidateArguments {
    /// The file; `-` reads standard input.
    pub file: PathBuf,
    /// How many phones there are; when nothing is said, those that the file names.
    #[arg(long)]
    phones: Option<u32>,
    /// Number of the first phone.
    #[arg(long, requires = "phones", default_value_t = 0)]
    first: u32,
    /// Who may call whom.
    #[arg(long, value_enum, default_value = "any")]
    convention: Convention,
    /// Phones of a pod, for --convention even-pod-calls-odd.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pod: u32,
    /// How the calls of a second lie in it.
    #[arg(long, value_enum, default_value = "regular")]
    spacing: Spacing,
}

impl ValidateArguments {
    /// What is asked of it.
    pub fn rules(&self) -> Rules {
        let first = self.first;
        Rules {
            phones: self.phones.map(|count| Phones { first, count }),
            pairing: self.convention.pairing(self.pod),
            spacing: self.spacing,
        }
    }
}

/// A scenario to draw.
#[derive(Clone, Debug, Args)]
pub struct PlotArguments {
    /// The file; `-` reads standard input.
    pub file: PathBuf,
    /// Where the picture is written; standard output when none is named.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
