//! Runs the real server beside real clients: sipp, sipsak, baresip, linphone, tshark.
//!
//! Everything happens on 127.0.0.1 with ports of the test's own; every process that a test starts ends with it. A program that
//! is missing fails the test that needs it: `scripts/setup test` installs them all.

mod process;
mod server;
mod sipp;

pub use process::{Child, free_port, run, wait_until};
pub use server::{Server, ServerOptions};
pub use sipp::{Sipp, Statistics};
