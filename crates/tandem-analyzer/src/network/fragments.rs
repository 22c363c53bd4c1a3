//! Reassembles fragments of IP packets (RFC 791 section 3.2, RFC 8200 section 4.5).

use super::ip::Fragment;
use crate::capture::Time;
use etherparse::IpNumber;
use etherparse::defrag::IpDefragBuf;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;

/// How long to wait for the other fragments of a packet, in nanoseconds.
const PATIENCE: i64 = 30_000_000_000;

/// The key of the packet that fragments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in the RFCs")]
pub struct FragmentKey {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub identification: u32,
}

/// Packets with missing fragments.
#[derive(Debug)]
pub struct Fragments {
    packets: HashMap<FragmentKey, (Time, IpDefragBuf)>,
    /// In the order in which they began. Completed packets remain here, but not in `packets`.
    begun: VecDeque<(Time, FragmentKey)>,
    most: usize,
    given_up: u64,
    refused: u64,
}

impl Fragments {
    /// For `most` packets at a time, of at most 64 KiB each.
    pub fn new(most: usize) -> Self {
        Self {
            packets: HashMap::new(),
            begun: VecDeque::new(),
            most,
            given_up: 0,
            refused: 0,
        }
    }

    /// Adds a fragment. Returns the payload when its packet is complete.
    pub fn add(
        &mut self,
        now: Time,
        fragment: &Fragment,
        protocol: IpNumber,
        payload: &[u8],
    ) -> Option<(IpNumber, Vec<u8>)> {
        self.expire(now);
        let key = fragment.key;
        if !self.packets.contains_key(&key) {
            if self.begun.len() >= self.most {
                self.give_up_oldest();
            }
            let buffer = IpDefragBuf::new(protocol, Vec::new(), Vec::new());
            self.packets.insert(key, (now, buffer));
            self.begun.push_back((now, key));
        }
        let (_, buffer) = self.packets.get_mut(&key)?;
        let offset = etherparse::IpFragOffset::try_new(fragment.offset / 8).ok()?;
        if buffer.add(offset, fragment.more, payload).is_err() {
            self.refused += 1;
            return None;
        }
        if !buffer.is_complete() {
            return None;
        }
        let (_, buffer) = self.packets.remove(&key)?;
        let protocol = buffer.ip_number();
        Some((protocol, buffer.take_bufs().0))
    }

    /// Packets whose other fragments did not arrive, or found no room.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Fragments that contradict others.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn expire(&mut self, now: Time) {
        while let Some((begun, _)) = self.begun.front()
            && now.since(*begun) > PATIENCE
        {
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        let Some((begun, key)) = self.begun.pop_front() else {
            return;
        };
        // The packet may be complete, and a new one may have the same key.
        if self
            .packets
            .get(&key)
            .is_some_and(|(time, _)| *time == begun)
        {
            self.packets.remove(&key);
            self.given_up += 1;
        }
    }
}
