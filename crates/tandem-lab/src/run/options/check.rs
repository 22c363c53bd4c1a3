//! Checks of options that exclude or require each other.

use super::Traffic;
use super::profile::{Handshakes, ProfileCommand};
use crate::run::figures::Kind;
use crate::run::profile::Profile;
use anyhow::bail;
use sip_transport::Protocol;

impl Traffic {
    /// Checks that the options fit together and to this traffic.
    pub(super) fn check(&self, profile: &Profile) -> anyhow::Result<()> {
        self.check_loop()?;
        let only_calls = profile
            .activities
            .iter()
            .all(|activity| activity.kind == Kind::Call);
        if self.direct && (!only_calls || profile.activities.is_empty()) {
            bail!("--direct supports calls only: other profiles need a server");
        }
        let is_scenario = matches!(self.profile, ProfileCommand::Scenario { .. });
        if is_scenario && self.warm_up.is_some() {
            bail!("--warm-up: every call of a scenario counts; use a longer scenario");
        }
        let rates = profile
            .activities
            .iter()
            .map(|activity| activity.rate.at(0.0));
        for rate in rates {
            if !(0.0..=10_000_000.0).contains(&rate) {
                bail!("the rate {rate} is out of range: use 0 to 10,000,000 units per second");
            }
        }
        let sockets = u32::from(self.ports) * u32::from(self.addresses);
        if sockets > 65_535 {
            bail!(
                "{sockets} sockets per worker are too many: --ports times --addresses must be at most 65,535"
            );
        }
        if let Some(first) = self.first_port
            && (self.workers > 1 || u32::from(first) + u32::from(self.ports) > 65_536)
        {
            bail!(
                "--first-port requires --workers 1, and --ports ports from it on that are at most 65535"
            );
        }
        let is_churn = matches!(self.profile, ProfileCommand::TlsChurn { .. });
        let is_scan = matches!(self.profile, ProfileCommand::Scan(_));
        if is_scan && self.protocol() != Protocol::Udp {
            bail!("scan requires --transport udp: noise would close shared connections");
        }
        let resumes = matches!(
            self.profile,
            ProfileCommand::TlsChurn {
                handshakes: Handshakes::Resumed,
                ..
            }
        );
        if resumes && !self.protocol().is_secure() {
            bail!("--handshakes resumed requires --transport tls or wss");
        }
        if is_churn && !self.protocol().is_reliable() {
            bail!("tls-churn requires --transport tls, tcp, wss or ws");
        }
        if self.direct && self.protocol().is_reliable() {
            bail!("--direct requires --transport udp");
        }
        let phones = self.phones();
        if phones < u32::from(self.workers) * 2 {
            bail!(
                "{phones} phones are too few for {} workers: each worker needs two",
                self.workers
            );
        }
        let needed = u64::from(sockets) * u64::from(self.workers);
        if is_churn && u64::from(phones) < needed {
            bail!(
                "each connection needs a phone: use --phones {needed} or more (--ports times --addresses times --workers)"
            );
        }
        if self.first.checked_add(phones).is_none() {
            bail!(
                "{phones} phones from number {} exceed the largest number, {}",
                self.first,
                u32::MAX
            );
        }
        Ok(())
    }

    /// Checks the options of a closed loop, and of threads that poll.
    fn check_loop(&self) -> anyhow::Result<()> {
        if self.busy_poll && self.protocol() != Protocol::Udp {
            bail!("--busy-poll requires --transport udp");
        }
        if self.window.is_none() {
            return Ok(());
        }
        let Some(pace) = self.profile.pace() else {
            bail!(
                "--window requires a profile with units of one kind: call, options, register, keep-alive, tls-churn, echo or scan"
            );
        };
        if pace.rate.is_some() || pace.every.is_some() {
            bail!(
                "--window and --rate exclude each other: units begin either when others end or at a rate"
            );
        }
        Ok(())
    }
}
