//! A simulated wire, and SIP messages on it.

use etherparse::PacketBuilder;
use std::net::{IpAddr, SocketAddr};
use tandem_analyzer::capture::{LinkType, Moment, Packet, Time};
use tandem_analyzer::{Analysis, Bounds, Counter, Counters, Exports, ResponseTimes, Servers, Step};

pub const SERVER: &str = "192.0.2.1:5060";
pub const ALICE: &str = "192.0.2.7:5062";
pub const BOB: &str = "192.0.2.8:5064";

/// Start time of tests: seconds since 1970.
const BEGIN: i64 = 1_700_000_000;

pub const BOUNDS: Bounds = Bounds {
    messages: 1_000,
    lifetime: 32_000_000_000,
    connections: 100,
    connection_bytes: 1 << 20,
    fragmented: 16,
};

/// An analysis, and a wire that feeds it.
pub struct Wire {
    pub analysis: Analysis,
    frame: u64,
    time: i64,
}

impl Wire {
    pub fn new() -> Self {
        Self::with(&[SERVER], BOUNDS)
    }

    pub fn with(servers: &[&str], bounds: Bounds) -> Self {
        let servers = servers
            .iter()
            .map(|server| server.parse().expect("an address"));
        let servers = Servers::new(servers.collect());
        let buckets = vec![1_000_000, 10_000_000];
        let exports = Exports::default();
        Self {
            analysis: Analysis::new(servers, Vec::new(), buckets, bounds, (1, 2), exports),
            frame: 0,
            time: BEGIN * 1_000_000_000,
        }
    }

    /// Advances the time (or sets it back), in microseconds.
    pub fn wait(&mut self, microseconds: i64) -> &mut Self {
        self.time += microseconds * 1_000;
        self
    }

    /// A packet, captured completely or in part.
    pub fn packet(&mut self, link: LinkType, bytes: &[u8], truncated: bool) -> &mut Self {
        self.frame += 1;
        let moment = Moment {
            frame: self.frame,
            time: Time(self.time),
        };
        self.analysis.packet(&Packet {
            moment,
            link,
            bytes,
            truncated,
        });
        self
    }

    /// An IP packet.
    pub fn ip(&mut self, bytes: &[u8]) -> &mut Self {
        self.packet(LinkType::RawIp, bytes, false)
    }

    /// A datagram.
    pub fn udp(&mut self, from: &str, to: &str, payload: impl AsRef<[u8]>) -> &mut Self {
        self.ip(&udp(from, to, payload.as_ref()))
    }

    pub fn counters(&self) -> Counters {
        self.analysis.counters()
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.counters().of(counter)
    }

    /// The response times of a step, in microseconds: count and sum.
    pub fn times(&self, step: Step, method: &str) -> (u64, u128) {
        let method = sip_message::Method::from_bytes(method.as_bytes());
        let of = |times: &ResponseTimes| (times.count(), times.sum / 1_000);
        self.analysis.figures().of(step, &method).map_or((0, 0), of)
    }

    /// Total number of response times.
    pub fn samples(&self) -> u64 {
        self.analysis
            .figures()
            .times()
            .map(|(_, _, times)| times.count())
            .sum()
    }

    pub fn finish(&mut self) -> &mut Self {
        self.analysis.finish().expect("nothing is written");
        self
    }
}

/// An IP packet with a datagram.
pub fn udp(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let builder = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), 64)
        }
        _ => panic!("addresses of two families"),
    };
    let mut bytes = Vec::new();
    let builder = builder.udp(from.port(), to.port());
    builder.write(&mut bytes, payload).expect("it fits");
    bytes
}

/// A SIP request with Vias (topmost first; `host:port;branch=…`), for a call, with additional header fields.
pub fn request(method: &str, vias: &[&str], call: &str, cseq: u32, more: &str) -> String {
    message(
        &format!("{method} sip:bob@example.org SIP/2.0"),
        vias,
        call,
        (cseq, method),
        "",
        more,
    )
}

/// A response with a To tag.
pub fn response(
    status: u16,
    method: &str,
    vias: &[&str],
    call: &str,
    cseq: u32,
    tag: &str,
) -> String {
    message(
        &format!("SIP/2.0 {status} Reason"),
        vias,
        call,
        (cseq, method),
        tag,
        "",
    )
}

fn message(
    first: &str,
    vias: &[&str],
    call: &str,
    cseq: (u32, &str),
    tag: &str,
    more: &str,
) -> String {
    let vias: Vec<String> = vias
        .iter()
        .map(|via| format!("Via: SIP/2.0/UDP {via}\r\n"))
        .collect();
    let vias = vias.concat();
    let tag = if tag.is_empty() {
        String::new()
    } else {
        format!(";tag={tag}")
    };
    let (number, method) = cseq;
    format!(
        "{first}\r\n{vias}From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>{tag}\r\n\
         Call-ID: {call}\r\nCSeq: {number} {method}\r\n{more}Content-Length: 0\r\n\r\n"
    )
}
