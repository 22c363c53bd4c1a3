//! Scenario files: calls with caller, callee and time. Each line is a call, in order of time:
//!
//! ```text
//! caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s
//! 4600;4700;1000;0;1
//! 7000;7100;1000;1;1
//! ```
//!
//! [`read()`] and [`write()`] implement the format and hold one line at a time. [`Generator`] makes calls. [`validate()`] reports mistakes with
//! their lines. [`plot()`] draws a file.
//!
//! The waits define the time: the first call is made at once, each other call when all waits before it are over. `arrival_rate_in_s` is
//! the expected rate of calls until the next one.

mod course;
mod elapsed;
mod generator;
mod measured;
mod mistake;
mod options;
mod pairs;
mod plot;
mod read;
mod validate;
mod waits;
mod write;

pub use course::{Course, Stretch};
pub use generator::Generator;
pub use measured::{Measured, Unusable};
pub use mistake::{Column, Mistake, Mistakes, Problem};
pub use options::{GenerateArguments, PlotArguments, ScenarioCommand, ValidateArguments};
pub use pairs::{Pairing, Phones};
pub use plot::{Unplottable, plot};
pub use read::{Line, Reader, Unreadable, read};
pub use validate::{Rules, Verdict, validate};
pub use write::write;

/// The first line of every scenario file.
pub const HEADER: &str =
    "caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s";

/// One call of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Number of the phone that calls.
    pub caller: u32,
    /// Number of the phone that is called.
    pub callee: u32,
    /// Milliseconds from this call to the next one.
    pub wait_ms: u32,
    /// Whole seconds from the first call to this one.
    pub second: u32,
    /// Calls per second expected until the next one.
    pub rate: f64,
}
