//! What became of every packet and message: nothing is dropped without being counted.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)+) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Counter {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it is called in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it says.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+),)+ }
            }
        }
    };
}

counters! {
    /// Packets captured.
    Packets = "packets",
    /// Packets that are older than one before them: the clock was set back, or the capture is not in order.
    ClockBack = "clock_went_back",
    /// Packets that the kernel dropped because the analyzer was too slow.
    KernelDrops = "kernel_drops",
    /// Packets without IP, or with a link type that is not read.
    NotIp = "not_ip",
    /// Packets whose IP, UDP or TCP header is broken or was not captured.
    BrokenPackets = "broken_packets",
    /// Packets of other protocols than UDP and TCP.
    OtherProtocols = "other_protocols",
    /// Packets of other ports than those asked for.
    OtherPorts = "other_ports",
    /// Fragments of IP packets.
    Fragments = "fragments",
    /// IP packets whose other fragments did not come, or for which there was no room.
    FragmentsGivenUp = "fragments_given_up",
    /// Fragments that contradict others.
    FragmentsRefused = "fragments_refused",
    /// Packets of which the end was not captured, with a message that cannot be read without it.
    CutOff = "cut_off",
    /// Keep-alives: empty datagrams, line ends, STUN.
    KeepAlives = "keep_alives",
    /// Datagrams that are not SIP.
    NotSip = "not_sip",
    /// TCP segments that came again.
    TcpRetransmitted = "tcp_retransmitted",
    /// TCP segments that came before one that precedes them.
    TcpOutOfOrder = "tcp_out_of_order",
    /// Gaps in connections: segments that the receiver has and the capture has not.
    TcpLost = "tcp_lost",
    /// Times that a stretch of a connection was skipped because no SIP message begins there.
    TcpNotSip = "tcp_not_sip",
    /// Segments or beginnings of messages for which there was no room.
    TcpFull = "tcp_full",
    /// Connections that were forgotten to make room for others.
    TcpForgotten = "tcp_forgotten",
    /// SIP messages.
    Messages = "messages",
    /// Messages without Via, Call-ID or `CSeq` that can be read.
    BrokenMessages = "broken_messages",
    /// Messages that neither come to the server nor leave it.
    ForeignMessages = "foreign_messages",
    /// Messages between two addresses that are both the server's.
    InternalMessages = "internal_messages",
    /// Messages that came or left again.
    Retransmissions = "retransmissions",
    /// Copies of a request that was forwarded already: other branches of a fork, and retransmissions.
    Copies = "copies",
    /// Requests of the server itself (such as CANCEL), and the responses to them.
    OwnRequests = "own_requests",
    /// Responses that the server made after it had forwarded the request, such as 408: what they waited for was not the server.
    LateAnswers = "late_answers",
    /// Messages that leave and whose other half did not come in: it was not captured, or the server changes Call-ID or Via.
    Unmatched = "unmatched",
    /// Requests that came and were neither forwarded nor answered in time.
    Unanswered = "unanswered",
    /// Responses that came and did not leave in time.
    Unrelayed = "unrelayed",
    /// Messages that were forgotten to make room for others before their other half came.
    Forgotten = "forgotten",
    /// Response times below zero, which are not recorded: the clock was set back between.
    Negative = "negative",
}

const COUNT: usize = Counter::ALL.len();

/// How often each happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Counters {
    /// Counts.
    pub fn add(&mut self, counter: Counter, count: u64) {
        if let Some(value) = self.0.get_mut(counter as usize) {
            *value += count;
        }
    }

    /// Takes over what was counted elsewhere.
    pub fn set(&mut self, counter: Counter, count: u64) {
        if let Some(value) = self.0.get_mut(counter as usize) {
            *value = count;
        }
    }

    /// How often it happened.
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
