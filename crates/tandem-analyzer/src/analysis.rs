//! The path of a packet: the messages that it completes, their direction, and the messages that they match.

use crate::capture::{Moment, Packet, Time};
use crate::counters::{Counter, Counters};
use crate::export::Exports;
use crate::figures::{Figures, MethodName};
use crate::message::{Observed, Unobserved};
use crate::network::{
    Carried, Fragments, IpPacket, Path, Segment, Side, Streams, Transport, ip_of,
};
use crate::pairs::Pairs;
use crate::servers::{Direction, Servers};
use etherparse::IpNumber;
use sip_message::{Glance, Via};
use std::io;
use std::net::IpAddr;

/// Limits of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages to remember.
    pub messages: u32,
    /// How long to remember them, in nanoseconds.
    pub lifetime: i64,
    /// TCP connections.
    pub connections: usize,
    /// Waiting bytes of all connections together.
    pub connection_bytes: usize,
    /// IP packets with missing fragments.
    pub fragmented: usize,
}

/// Computes response times from packets.
#[derive(Debug)]
pub struct Analysis {
    /// One end of a packet must have one of these ports; empty accepts all.
    ports: Vec<u16>,
    newest: Time,
    counters: Counters,
    fragments: Fragments,
    streams: Streams,
    messages: Messages,
}

impl Analysis {
    /// Analyzes the messages of these servers. `buckets`: upper bounds in nanoseconds, ascending. `secret`: for the keys of tables, so
    /// that no peer can cause collisions.
    pub fn new(
        servers: Servers,
        ports: Vec<u16>,
        buckets: Vec<u64>,
        bounds: Bounds,
        secret: (u64, u64),
        exports: Exports,
    ) -> Self {
        Self {
            ports,
            newest: Time(i64::MIN),
            counters: Counters::default(),
            fragments: Fragments::new(bounds.fragmented),
            streams: Streams::new(bounds.connections, bounds.connection_bytes),
            messages: Messages {
                servers,
                pairs: Pairs::new(secret, bounds.messages, bounds.lifetime),
                figures: Figures::new(buckets),
                exports,
                failure: None,
            },
        }
    }

    /// Processes a packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.counters.add(Counter::Packets, 1);
        self.clock(packet.moment.time);
        let Some(bytes) = ip_of(packet.link, packet.bytes) else {
            return self.counters.add(Counter::NotIp, 1);
        };
        let Ok(ip) = IpPacket::parse(bytes) else {
            return self.counters.add(Counter::BrokenPackets, 1);
        };
        let ends = (ip.source, ip.destination);
        let cut_off = ip.cut_off && packet.truncated;
        let Some(fragment) = &ip.fragment else {
            return self.whole(packet.moment, ends, ip.protocol, ip.payload, cut_off);
        };
        self.counters.add(Counter::Fragments, 1);
        if ip.cut_off {
            return self.counters.add(Counter::CutOff, 1);
        }
        let time = packet.moment.time;
        if let Some((protocol, payload)) =
            self.fragments.add(time, fragment, ip.protocol, ip.payload)
        {
            self.whole(packet.moment, ends, protocol, &payload, false);
        }
    }

    /// The response times.
    pub fn figures(&self) -> &Figures {
        &self.messages.figures
    }

    /// The counters of all packets and messages.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        counters.set(Counter::FragmentsGivenUp, self.fragments.given_up());
        counters.set(Counter::FragmentsRefused, self.fragments.refused());
        counters
    }

    /// Messages remembered, connections, and waiting bytes in them.
    pub fn held(&self) -> (usize, usize, usize) {
        let messages = self.messages.pairs.remembered();
        (messages, self.streams.len(), self.streams.waiting())
    }

    /// The servers whose response times are measured.
    pub fn servers(&self) -> &Servers {
        &self.messages.servers
    }

    /// Counts packets that the kernel dropped.
    pub fn dropped_by_kernel(&mut self, packets: u64) {
        self.counters.add(Counter::KernelDrops, packets);
    }

    /// The first error in writing samples, if any.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.messages.failure.take()
    }

    /// Writes all buffered samples to their files.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.messages.exports.flush()
    }

    /// Ends the analysis: messages without a match are counted, and all samples are written.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(&mut self) -> io::Result<()> {
        self.messages.pairs.finish(&mut self.counters);
        self.flush()
    }

    fn clock(&mut self, time: Time) {
        if time < self.newest {
            self.counters.add(Counter::ClockBack, 1);
        }
        self.newest = time;
    }

    /// Processes a complete IP packet.
    fn whole(
        &mut self,
        moment: Moment,
        ends: (IpAddr, IpAddr),
        protocol: IpNumber,
        payload: &[u8],
        cut_off: bool,
    ) {
        let counters = &mut self.counters;
        match Carried::parse(ends, protocol, payload, cut_off) {
            Carried::Datagram {
                path,
                payload,
                cut_off,
            } => {
                if is_asked_for(&self.ports, &path) {
                    let messages = &mut self.messages;
                    messages.datagram(payload, moment, &path, cut_off, counters);
                } else {
                    counters.add(Counter::OtherPorts, 1);
                }
            }
            Carried::Segment {
                path,
                segment,
                cut_off,
            } => {
                if !is_asked_for(&self.ports, &path) {
                    return counters.add(Counter::OtherPorts, 1);
                }
                if cut_off {
                    counters.add(Counter::CutOff, 1);
                }
                let segment = Segment { moment, ..segment };
                let messages = &mut self.messages;
                let take = |bytes: &[u8],
                            moment,
                            path: &Path,
                            server: &mut Option<Side>,
                            counters: &mut Counters| {
                    messages.streamed(bytes, moment, path, server, counters);
                };
                self.streams.segment(&path, segment, counters, take);
            }
            Carried::Other => counters.add(Counter::OtherProtocols, 1),
            Carried::Broken => counters.add(Counter::BrokenPackets, 1),
        }
    }
}

fn is_asked_for(ports: &[u16], path: &Path) -> bool {
    let is_one = |port| ports.contains(&port);
    ports.is_empty() || is_one(path.source.port()) || is_one(path.destination.port())
}

/// Computes response times from messages.
#[derive(Debug)]
struct Messages {
    servers: Servers,
    pairs: Pairs,
    figures: Figures,
    exports: Exports,
    failure: Option<io::Error>,
}

impl Messages {
    /// Processes a datagram. With UDP segmentation offload, a capture on the sender's machine shows several datagrams as one, so another
    /// message may follow a message. Anything else that follows is not part of the message (section 18.3).
    fn datagram(
        &mut self,
        payload: &[u8],
        moment: Moment,
        path: &Path,
        cut_off: bool,
        counters: &mut Counters,
    ) {
        let mut rest = payload;
        loop {
            let is_first = rest.len() == payload.len();
            let seen = match Glance::parse(rest) {
                Ok(seen) => seen,
                Err(_) if !is_first => return,
                Err(error) => {
                    let why = Unobserved::from(error);
                    return counters.add(ignored_as(why, rest), 1);
                }
            };
            let observed = Observed::new(&seen, cut_off);
            self.message(observed, moment, path, None, counters);
            rest = rest.get(seen.length..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Processes a message from a connection. `server`: the end that is known to be the server's.
    fn streamed(
        &mut self,
        bytes: &[u8],
        moment: Moment,
        path: &Path,
        server: &mut Option<Side>,
        counters: &mut Counters,
    ) {
        match Glance::parse(bytes) {
            Ok(seen) => {
                let observed = Observed::new(&seen, false);
                self.message(observed, moment, path, Some(server), counters);
            }
            Err(error) => counters.add(ignored_as(error.into(), bytes), 1),
        }
    }

    fn message(
        &mut self,
        observed: Result<Observed<'_>, Unobserved>,
        moment: Moment,
        path: &Path,
        server: Option<&mut Option<Side>>,
        counters: &mut Counters,
    ) {
        let observed = match observed {
            Ok(observed) => observed,
            Err(why) => return counters.add(ignored_as(why, &[]), 1),
        };
        counters.add(Counter::Messages, 1);
        let is_request = observed.status.is_none();
        let direction = self.direction(path, observed.top_via, is_request, server);
        self.export(|exports| exports.message(moment, direction, path, &observed));
        match direction {
            Direction::In => self.pairs.came(moment, &observed, counters),
            Direction::Out => self.left(moment, path, &observed, counters),
            Direction::Internal => counters.add(Counter::InternalMessages, 1),
            Direction::Foreign => counters.add(Counter::ForeignMessages, 1),
        }
    }

    fn left(
        &mut self,
        moment: Moment,
        path: &Path,
        observed: &Observed<'_>,
        counters: &mut Counters,
    ) {
        let Some(pair) = self.pairs.left(moment.time, observed, counters) else {
            return;
        };
        let time = moment.time.since(pair.came.time);
        let Ok(unsigned) = u64::try_from(time) else {
            return counters.add(Counter::Negative, 1);
        };
        let method = MethodName::of(&observed.cseq.method);
        self.figures.record(pair.step, method, unsigned);
        self.export(|exports| exports.sample(moment, &pair, time, path, observed));
    }

    /// The direction of a message, by its addresses. If these do not tell, Via decides, for this and all further messages of the
    /// connection.
    fn direction(
        &self,
        path: &Path,
        via: &[u8],
        is_request: bool,
        server: Option<&mut Option<Side>>,
    ) -> Direction {
        let by_path = self.servers.direction(path);
        let (Direction::Foreign, Transport::Tcp, Some(server)) = (by_path, path.transport, server)
        else {
            return by_path;
        };
        let sender = Side::sender(path);
        if let Some(server) = server {
            return if *server == sender {
                Direction::Out
            } else {
                Direction::In
            };
        }
        let via = Via::parse(via);
        let by_via = via.and_then(|via| self.servers.direction_by_via(&via, is_request));
        let Some(direction) = by_via else {
            return by_path;
        };
        *server = Some(match direction {
            Direction::Out => sender,
            _ => sender.other(),
        });
        direction
    }

    /// Writes to the exports. The first failure is kept until [`Analysis::failure`] takes it.
    fn export(&mut self, write: impl FnOnce(&mut Exports) -> io::Result<()>) {
        if let Err(error) = write(&mut self.exports)
            && self.failure.is_none()
        {
            self.failure = Some(error);
        }
    }
}

/// The counter for data that is not a message.
fn ignored_as(why: Unobserved, bytes: &[u8]) -> Counter {
    /// The magic cookie of STUN, from the fifth byte (RFC 8489 section 5).
    const MAGIC_COOKIE: &[u8] = &[0x21, 0x12, 0xa4, 0x42];
    match why {
        Unobserved::Empty => Counter::KeepAlives,
        Unobserved::NotSip if bytes.get(4..8) == Some(MAGIC_COOKIE) => Counter::KeepAlives,
        // A lone NUL, or spaces, as some phones send.
        Unobserved::NotSip
            if bytes
                .iter()
                .all(|octet| matches!(octet, 0 | b' ' | b'\r' | b'\n')) =>
        {
            Counter::KeepAlives
        }
        Unobserved::NotSip => Counter::NotSip,
        Unobserved::Broken => Counter::BrokenMessages,
        Unobserved::CutOff => Counter::CutOff,
    }
}
