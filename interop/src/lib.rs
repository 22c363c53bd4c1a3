//! Runs the real server with real clients: sipp, sipsak, baresip, linphone, `JsSIP` and SIP.js in Chromium, a browser
//! with the laboratory's page, Kamailio, dnsmasq, coturn, stunnel, tshark, sngrep, Prometheus, Redis.
//!
//! Everything happens on 127.0.0.1 (and `::1`), or in network namespaces of the test ([`Network`]), on ports that belong
//! to the test. Every process that a test starts ends with it. A missing program fails the tests that need it; `scripts/setup test` installs them all. An error in here is a
//! panic. It says what was expected and shows the output of the program concerned.
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
mod edge;
mod features;
mod fleet_controller;
mod gateways;
mod host;
mod kamailio;
mod lab;
mod laboratory;
mod linphone;
mod messages;
mod page;
mod phone;
mod process;
mod prometheus;
mod redis;
mod server;
mod sipp;
mod sngrep;
mod tunnel;

pub use baresip::Baresip;
pub use browser::{Library, WebAccount, WebPhone};
pub use capture::{Capture, Packets, WireMessage};
pub use dissection::Dissected;
pub use dns::{NameServer, Records, ZONE};
pub use edge::{Edge, FLEET_SECRET};
pub use fleet_controller::FleetController;
pub use gateways::Gateways;
pub use host::{Host, Network};
pub use kamailio::Kamailio;
pub use lab::{lab_command, lab_run, lab_users};
pub use laboratory::Laboratory;
pub use linphone::Linphone;
pub use messages::{Messages, header};
pub use page::{Look, Page};
pub use phone::{Account, Moment, Phone, ReceivedRequest, last_received};
pub use process::{Child, PATIENCE, eventually, free_port, run, wait_until};
pub use prometheus::Prometheus;
pub use redis::{Redis, Subscriber};
pub use server::{Server, ServerOptions};
pub use sipp::{Outcome, Scenario, Sipp};
pub use sngrep::Sngrep;
pub use tunnel::Tunnel;
