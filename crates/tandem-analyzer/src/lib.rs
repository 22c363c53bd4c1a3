//! The analyzer: response times of a SIP server, from the packets that come to it and leave it.
//!
//! ```text
//! capture: file | ring ─▶ network: link ─▶ IP ─▶ fragments ─▶ UDP | TCP streams ─▶ messages ─▶ pairs ─▶ figures, samples
//! ```
//!
//! [`Analysis::packet`] is the map: each line is a step of a packet's way. Nothing below it opens a file or reads a clock: the only time is
//! the one that the capture gives each packet. Every table has a bound, and a counter that says when it was reached.

mod analysis;
mod counters;
mod decimal;
mod export;
mod figures;
mod message;
mod options;
mod pairs;
mod report;
mod run;
mod servers;
mod waiting;

pub mod capture;
pub mod network;

pub use analysis::{Analysis, Bounds};
pub use counters::{Counter, Counters};
pub use export::Exports;
pub use figures::{Figures, MethodName, ResponseTimes, Step};
pub use options::{Arguments, Plan, Source};
pub use report::{Report, Row};
pub use run::analyze;
pub use servers::{Direction, ServerAddress, Servers};
