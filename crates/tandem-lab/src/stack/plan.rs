//! Divides the stacks among processes: one, unless it may not open enough descriptors.

use super::Transport;
use std::fmt;
use std::num::NonZeroU16;

/// Descriptors of a process other than those of its ports: standard streams, event loops, wakers.
const OTHERS: u64 = 64;

/// The distribution of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The ports of each server stack.
    pub servers: Vec<NonZeroU16>,
    /// Whether client and server stack share one process. Otherwise each stack has its own.
    pub is_one_process: bool,
}

impl Plan {
    /// Divides these ports, with this limit of descriptors per process; `None` means no limit.
    ///
    /// # Errors
    /// The client stack alone needs more.
    pub fn new(
        transport: Transport,
        ports: NonZeroU16,
        limit: Option<u64>,
    ) -> Result<Self, PlanError> {
        // UDP: a socket. TCP: a listener and the connection that it accepts.
        let of_server = match transport {
            Transport::Udp => 1,
            Transport::Tcp => 2,
        };
        let available = limit.unwrap_or(u64::MAX).saturating_sub(OTHERS);
        let wanted = u64::from(ports.get());
        if wanted > available {
            return Err(PlanError { ports, available });
        }
        if wanted * (1 + of_server) <= available {
            return Ok(Self {
                servers: vec![ports],
                is_one_process: true,
            });
        }
        let processes = (wanted * of_server).div_ceil(available);
        let servers = (0..processes).filter_map(|server| {
            let share = wanted * (server + 1) / processes - wanted * server / processes;
            NonZeroU16::new(share as u16)
        });
        Ok(Self {
            servers: servers.collect(),
            is_one_process: false,
        })
    }
}

/// More ports than a process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError {
    ports: NonZeroU16,
    available: u64,
}

impl fmt::Display for PlanError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ports, available } = self;
        write!(
            formatter,
            "{ports} ports are too many: the limit of open descriptors allows {available} per process; use fewer ports, \
             or raise it (ulimit -Hn)"
        )
    }
}

impl std::error::Error for PlanError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(transport: Transport, ports: u16, limit: Option<u64>, expected: (&[u16], bool)) {
        let ports = NonZeroU16::new(ports).expect("a port");
        let plan = Plan::new(transport, ports, limit).expect("a plan");
        let servers: Vec<u16> = plan.servers.iter().map(|ports| ports.get()).collect();
        assert_eq!((&*servers, plan.is_one_process), expected);
    }

    #[test]
    fn one_process_serves_as_long_as_the_descriptors_last() {
        check(Transport::Udp, 9_968, Some(20_000), (&[9_968], true));
        check(Transport::Udp, 9_969, Some(20_000), (&[9_969], false));
        check(Transport::Tcp, 6_645, Some(20_000), (&[6_645], true));
        check(Transport::Tcp, 6_646, Some(20_000), (&[6_646], false));
        check(Transport::Tcp, 60_000, None, (&[60_000], true));
    }

    #[test]
    fn servers_share_what_one_cannot_open() {
        check(
            Transport::Tcp,
            10_000,
            Some(20_000),
            (&[5_000, 5_000], false),
        );
        check(Transport::Tcp, 10, Some(80), (&[5, 5], false));
        check(Transport::Udp, 15, Some(80), (&[15], false));
    }

    #[test]
    fn too_many_ports_for_the_client_are_refused_with_what_is_possible() {
        let ports = NonZeroU16::new(1_000).expect("a port");
        let refused = Plan::new(Transport::Udp, ports, Some(1_000)).expect_err("too many");
        assert_eq!(refused.available, 936);
        assert!(refused.to_string().contains("936"));
    }
}
