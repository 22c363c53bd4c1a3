//! Checks of options that exclude or require each other.

use super::Traffic;
use super::profile::{Handshakes, ProfileCommand};
use crate::run::figures::Kind;
use crate::run::profile::Profile;
use sip_transport::Protocol;
use std::io;

impl Traffic {
    /// Checks that the options fit together and to this traffic.
    pub(super) fn check(&self, profile: &Profile) -> io::Result<()> {
        self.check_loop()?;
        let only_calls = profile
            .activities
            .iter()
            .all(|activity| activity.kind == Kind::Call);
        if self.direct && (!only_calls || profile.activities.is_empty()) {
            return Err(mistake(
                "--direct supports calls only: other profiles need a server".into(),
            ));
        }
        let is_scenario = matches!(self.profile, ProfileCommand::Scenario { .. });
        if is_scenario && self.warm_up.is_some() {
            return Err(mistake(
                "--warm-up: every call of a scenario counts; use a longer scenario".into(),
            ));
        }
        let rates = profile
            .activities
            .iter()
            .map(|activity| activity.rate.at(0.0));
        for rate in rates {
            if !(0.0..=10_000_000.0).contains(&rate) {
                return Err(mistake(format!(
                    "the rate {rate} is out of range: use 0 to 10,000,000 units per second"
                )));
            }
        }
        let sockets = u32::from(self.ports) * u32::from(self.addresses);
        if sockets > 65_535 {
            return Err(mistake(format!(
                "{sockets} sockets per worker are too many: --ports times --addresses must be at most 65,535"
            )));
        }
        let is_churn = matches!(self.profile, ProfileCommand::TlsChurn { .. });
        let is_scan = matches!(self.profile, ProfileCommand::Scan(_));
        if is_scan && self.protocol() != Protocol::Udp {
            return Err(mistake(
                "scan requires --transport udp: noise would close shared connections".into(),
            ));
        }
        let resumes = matches!(
            self.profile,
            ProfileCommand::TlsChurn {
                handshakes: Handshakes::Resumed,
                ..
            }
        );
        if resumes && !self.protocol().is_secure() {
            return Err(mistake(
                "--handshakes resumed requires --transport tls or wss".into(),
            ));
        }
        if is_churn && !self.protocol().is_reliable() {
            return Err(mistake(
                "tls-churn requires --transport tls, tcp, wss or ws".into(),
            ));
        }
        if self.direct && self.protocol().is_reliable() {
            return Err(mistake("--direct requires --transport udp".into()));
        }
        let phones = self.phones();
        if phones < u32::from(self.workers) * 2 {
            return Err(mistake(format!(
                "{phones} phones are too few for {} workers: each worker needs two",
                self.workers
            )));
        }
        let needed = u64::from(sockets) * u64::from(self.workers);
        if is_churn && u64::from(phones) < needed {
            return Err(mistake(format!(
                "each connection needs a phone: use --phones {needed} or more (--ports times --addresses times --workers)"
            )));
        }
        if self.first.checked_add(phones).is_none() {
            return Err(mistake(format!(
                "{phones} phones from number {} exceed the largest number, {}",
                self.first,
                u32::MAX
            )));
        }
        Ok(())
    }

    /// Checks the options of a closed loop, and of threads that poll.
    fn check_loop(&self) -> io::Result<()> {
        if self.busy_poll && self.protocol() != Protocol::Udp {
            return Err(mistake("--busy-poll requires --transport udp".into()));
        }
        if self.window.is_none() {
            return Ok(());
        }
        let Some(pace) = self.profile.pace() else {
            return Err(mistake(
                "--window requires a profile with units of one kind: call, options, register, keep-alive, tls-churn, echo or scan".into(),
            ));
        };
        if pace.rate.is_some() || pace.every.is_some() {
            return Err(mistake(
                "--window and --rate exclude each other: units begin either when others end or at a rate".into(),
            ));
        }
        Ok(())
    }
}

fn mistake(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
