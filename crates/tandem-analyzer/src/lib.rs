//! The analyzer: measures response times of a SIP server from the packets that enter and leave it.
//!
//! ```text
//! capture: file | ring ─▶ network: link ─▶ IP ─▶ fragments ─▶ UDP | TCP streams ─▶ messages ─▶ pairs ─▶ figures, samples
//! ```
//!
//! [`Analysis::packet`] shows the path of a packet, step by step. No code below it opens a file or reads a clock: the only time is the
//! capture time of each packet. Every table has a limit, and a counter that shows when the limit was reached.

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
