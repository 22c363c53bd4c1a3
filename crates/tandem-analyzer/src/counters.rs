//! Counters of packets and messages: everything that is dropped is counted.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)+) => {
        /// The counted events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Counter {
            /// All counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The description.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+),)+ }
            }
        }
    };
}

counters! {
    /// Packets captured.
    Packets = "packets",
    /// Packets older than a previous one: the clock was set back, or the capture is out of order.
    ClockBack = "clock_went_back",
    /// Packets that the kernel dropped because the analyzer was too slow.
    KernelDrops = "kernel_drops",
    /// Packets without IP, or with an unsupported link type.
    NotIp = "not_ip",
    /// Packets whose IP, UDP or TCP header is broken or was not captured.
    BrokenPackets = "broken_packets",
    /// Packets of protocols other than UDP and TCP.
    OtherProtocols = "other_protocols",
    /// Packets of ports that are not selected.
    OtherPorts = "other_ports",
    /// Fragments of IP packets.
    Fragments = "fragments",
    /// IP packets whose other fragments did not arrive, or found no room.
    FragmentsGivenUp = "fragments_given_up",
    /// Fragments that contradict others.
    FragmentsRefused = "fragments_refused",
    /// Packets captured without their end, with a message that cannot be read without it.
    CutOff = "cut_off",
    /// Keep-alives: empty datagrams, line ends, STUN.
    KeepAlives = "keep_alives",
    /// Datagrams that are not SIP.
    NotSip = "not_sip",
    /// Repeated TCP segments.
    TcpRetransmitted = "tcp_retransmitted",
    /// TCP segments that arrived early.
    TcpOutOfOrder = "tcp_out_of_order",
    /// Gaps in connections: segments that the receiver has acknowledged but the capture does not contain.
    TcpLost = "tcp_lost",
    /// Skipped parts of connections in which no SIP message begins.
    TcpNotSip = "tcp_not_sip",
    /// Segments, or beginnings of messages, for which there was no room.
    TcpFull = "tcp_full",
    /// Connections evicted to make room.
    TcpForgotten = "tcp_forgotten",
    /// SIP messages.
    Messages = "messages",
    /// Messages without a valid Via, Call-ID or `CSeq`.
    BrokenMessages = "broken_messages",
    /// Messages neither to nor from the server.
    ForeignMessages = "foreign_messages",
    /// Messages between two addresses of the server.
    InternalMessages = "internal_messages",
    /// Messages that entered or left again.
    Retransmissions = "retransmissions",
    /// Further copies of a forwarded request: other branches of a fork, and retransmissions.
    Copies = "copies",
    /// Requests of the server itself (such as CANCEL), and the responses to them.
    OwnRequests = "own_requests",
    /// Responses that the server generated after forwarding the request, such as 408: their delay is not the server's own.
    LateAnswers = "late_answers",
    /// Outgoing messages without a matching incoming one: it was not captured, or the server changes Call-ID or Via.
    Unmatched = "unmatched",
    /// Incoming requests that were neither forwarded nor answered in time.
    Unanswered = "unanswered",
    /// Incoming responses that were not relayed in time.
    Unrelayed = "unrelayed",
    /// Incoming messages evicted before a matching message left.
    Forgotten = "forgotten",
    /// Response times below zero, which are not recorded: the clock was set back in between.
    Negative = "negative",
}

const COUNT: usize = Counter::ALL.len();

/// The count of each event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Counters {
    /// Adds to a count.
    pub fn add(&mut self, counter: Counter, count: u64) {
        if let Some(value) = self.0.get_mut(counter as usize) {
            *value += count;
        }
    }

    /// Replaces a count by one that is kept elsewhere.
    pub fn set(&mut self, counter: Counter, count: u64) {
        if let Some(value) = self.0.get_mut(counter as usize) {
            *value = count;
        }
    }

    /// The count of an event.
    pub fn of(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNT))?;
        for counter in Counter::ALL {
            map.serialize_entry(counter.name(), &self.of(*counter))?;
        }
        map.end()
    }
}
