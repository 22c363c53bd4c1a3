//! Sends every message to a HEP collector over UDP. What the socket does not take at once is dropped and counted.
use super::Seen;
use super::hep::{self, Agent};
use crate::config::Trace as Settings;
use prometheus_client::metrics::counter::Counter;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use tracing::warn;

/// Counters of the packets for the collector.
#[derive(Debug, Default)]
pub(crate) struct CollectorCounters {
    /// Packets that the kernel accepted.
    pub(crate) sent: Counter,
    /// Messages that do not fit into a datagram.
    pub(crate) too_long: Counter,
    /// Packets that the kernel did not accept, for example because an ICMP error said that the collector is away.
    pub(crate) failed: Counter,
}

/// The collector, if the configuration names one.
#[derive(Debug, Default)]
pub(super) struct Collector {
    settings: Settings,
    /// Opened with the first message, and again if that failed.
    socket: Option<UdpSocket>,
    packet: Vec<u8>,
    /// Whether a failure was logged.
    has_warned: bool,
}

impl Collector {
    /// Follows the configuration.
    pub(super) fn configure(&mut self, settings: &Settings) {
        if self.settings.hep != settings.hep {
            (self.socket, self.has_warned) = (None, false);
        }
        if self.settings != *settings {
            self.settings = settings.clone();
        }
    }

    /// Whether there is a collector.
    pub(super) const fn is_configured(&self) -> bool {
        self.settings.hep.is_some()
    }

    /// Sends a message, if there is a collector.
    pub(super) fn send(&mut self, seen: &Seen<'_>, counters: &CollectorCounters) {
        let Some(collector) = self.settings.hep else {
            return;
        };
        let agent = Agent {
            id: self.settings.hep_agent,
            key: self.settings.hep_key.as_bytes(),
        };
        if !hep::encode(seen, agent, &mut self.packet) {
            counters.too_long.inc();
            return;
        }
        match self.try_send(collector.0) {
            Ok(_) => counters.sent.inc(),
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    let collector = collector.0;
                    warn!(%collector, %error, "the HEP collector does not receive all messages; the metrics count them");
                }
                counters.failed.inc()
            }
        };
    }

    fn try_send(&mut self, collector: SocketAddr) -> io::Result<usize> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open(collector)?,
        };
        self.socket.insert(socket).send(&self.packet)
    }
}

/// A socket that never blocks. It is connected, so that the kernel reports a collector that is away.
fn open(collector: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match collector {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(collector)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
