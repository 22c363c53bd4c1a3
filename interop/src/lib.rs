//! Runs the real server beside real clients: sipp, sipsak, baresip, linphone, `JsSIP` and SIP.js in Chromium, Kamailio, dnsmasq, coturn,
//! stunnel, tshark, Prometheus.
//! Runs the real server beside real clients: sipp, sipsak, baresip, linphone, `JsSIP` and SIP.js in Chromium, a browser at the laboratory's page, Kamailio, dnsmasq, coturn,
//! stunnel, tshark.
//!
//! Everything happens on 127.0.0.1 (and `::1`) with ports of the test's own; every process that a test starts ends with it. A
//! program that is missing fails the test that needs it: `scripts/setup test` installs them all. What goes wrong in here is a
//! panic that says what was expected and shows what the program concerned has printed.
#![expect(
    clippy::missing_panics_doc,
    reason = "a panic is how a test fails; all of this is for tests"
)]

mod admin;
mod baresip;
mod browser;
mod capture;
mod devtools;
mod dissection;
mod dns;
mod kamailio;
mod lab;
mod laboratory;
mod linphone;
mod messages;
mod page;
mod phone;
mod process;
mod prometheus;
mod server;
mod sipp;
mod tunnel;

pub use baresip::Baresip;
pub use browser::{Library, WebAccount, WebPhone};
pub use capture::{Capture, Packets, WireMessage};
pub use dissection::Dissected;
pub use dns::{NameServer, Records, ZONE};
pub use kamailio::Kamailio;
pub use lab::{lab_command, lab_run, lab_users};
pub use laboratory::Laboratory;
pub use linphone::Linphone;
pub use messages::{Messages, header};
pub use page::{Look, Page};
pub use phone::{Account, Moment, Phone, ReceivedRequest, last_received};
pub use process::{Child, PATIENCE, eventually, free_port, run, wait_until};
pub use prometheus::Prometheus;
pub use server::{Server, ServerOptions};
pub use sipp::{Outcome, Scenario, Sipp};
pub use tunnel::Tunnel;
