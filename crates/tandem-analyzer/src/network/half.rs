//! What one side of a connection sent: put in order, cut into messages.

use crate::capture::Moment;
use crate::counters::{Counter, Counters};
use sip_message::{Frame, Framer};
use std::collections::VecDeque;

/// Longest header and body of a message, in octets.
const LONGEST: (usize, usize) = (65_536, 262_144);
/// Most segments of one side that wait for one before them.
const MOST_SEGMENTS: usize = 256;
/// Farthest that a sequence number lies from the awaited one, in octets; beyond, it is another connection, or much was not captured.
const FARTHEST: u32 = 1 << 24;

/// A TCP segment, and when it was captured.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named as in RFC 9293")]
pub struct Segment<'a> {
    pub moment: Moment,
    pub sequence: u32,
    pub acknowledgment: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub payload: &'a [u8],
}

/// Octets that wait in all connections, and how many may.
#[derive(Debug)]
pub struct Bytes {
    used: usize,
    most: usize,
}

impl Bytes {
    pub(super) const fn new(most: usize) -> Self {
        Self { used: 0, most }
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }

    const fn take(&mut self, count: usize) -> bool {
        let fits = count <= self.most.saturating_sub(self.used);
        if fits {
            self.used += count;
        }
        fits
    }

    const fn give_back(&mut self, count: usize) {
        self.used = self.used.saturating_sub(count);
    }
}

/// What one side of a connection sent.
#[derive(Debug)]
pub(super) struct Half {
    /// Sequence number of the octet that comes next; `None` before the first.
    next: Option<u32>,
    /// Behind the last octet, once FIN said where that is.
    end: Option<u32>,
    /// In the midst of messages, or waiting for one to begin.
    following: bool,
    framer: Framer,
    /// The beginning of a message.
    begun: Vec<u8>,
    /// Segments before which one is missing, in the order of their sequence numbers.
    ahead: VecDeque<(u32, Moment, Vec<u8>)>,
}

impl Default for Half {
    fn default() -> Self {
        Self {
            next: None,
            end: None,
            following: false,
            framer: framer(),
            begun: Vec::new(),
            ahead: VecDeque::new(),
        }
    }
}

const fn framer() -> Framer {
    Framer::new(LONGEST.0, LONGEST.1)
}

/// Octets from `from` to `to` in the circle of sequence numbers; negative where `to` lies before.
const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

impl Half {
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    pub(super) fn give_back(&self, bytes: &mut Bytes) {
        bytes.give_back(self.begun.len());
        for (_, _, payload) in &self.ahead {
            bytes.give_back(payload.len());
        }
    }

    /// Takes a segment that this side sent.
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        let mut first = segment.sequence;
        if segment.syn {
            // Another connection between the same ports, or the same SYN again.
            first = first.wrapping_add(1);
            if self.next != Some(first) {
                self.give_back(bytes);
                *self = Self::default();
                (self.next, self.following) = (Some(first), true);
            }
        }
        if segment.fin {
            self.end = Some(first.wrapping_add(segment.payload.len() as u32));
        }
        if segment.payload.is_empty() {
            return;
        }
        let next = *self.next.get_or_insert(first);
        match distance(next, first) {
            away if away.unsigned_abs() > FARTHEST => {
                counters.add(Counter::TcpLost, 1);
                self.give_up(bytes);
                self.next = Some(first);
                self.in_order(
                    first,
                    segment.payload,
                    segment.moment,
                    bytes,
                    counters,
                    take,
                );
            }
            ahead if ahead > 0 => {
                counters.add(Counter::TcpOutOfOrder, 1);
                self.keep(first, segment, bytes, counters, take);
            }
            _ => {
                if !self.in_order(
                    first,
                    segment.payload,
                    segment.moment,
                    bytes,
                    counters,
                    take,
                ) {
                    counters.add(Counter::TcpRetransmitted, 1);
                    return;
                }
                self.catch_up(Some(segment.moment), bytes, counters, take);
            }
        }
    }

    /// The other side has received all before `number`: what of it was not seen was not captured.
    pub(super) fn acknowledged(
        &mut self,
        number: u32,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        let is_missing = |half: &Self| {
            let behind_fin = half.is_finished();
            !behind_fin && half.next.is_some_and(|next| distance(next, number) > 0)
        };
        while is_missing(self) {
            counters.add(Counter::TcpLost, 1);
            let known = self.ahead.front().map(|(first, ..)| *first);
            match known.filter(|first| distance(*first, number) > 0) {
                Some(first) => self.skip_to(first, bytes, counters, take),
                None => self.skip_to(number, bytes, counters, take),
            }
        }
    }

    /// Goes on behind what is missing.
    fn skip_to(
        &mut self,
        first: u32,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        self.lose_track(bytes);
        self.next = Some(first);
        self.catch_up(None, bytes, counters, take);
    }

    /// Takes what is new in octets that begin at the awaited one or before. Whether anything is.
    fn in_order(
        &mut self,
        first: u32,
        payload: &[u8],
        moment: Moment,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) -> bool {
        let known = distance(first, self.next.unwrap_or(first));
        let new = usize::try_from(known)
            .ok()
            .and_then(|known| payload.get(known..));
        let Some(new) = new.filter(|new| !new.is_empty()) else {
            return false;
        };
        self.next = Some(first.wrapping_add(payload.len() as u32));
        self.frames(new, moment, bytes, counters, take);
        true
    }

    /// Keeps a segment until the one before it has come.
    fn keep(
        &mut self,
        first: u32,
        segment: &Segment<'_>,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        if self.ahead.len() >= MOST_SEGMENTS || !bytes.take(segment.payload.len()) {
            counters.add(Counter::TcpFull, 1);
            let resume = self.ahead.front().map_or(first, |(first, ..)| *first);
            self.skip_to(resume, bytes, counters, take);
            if self.next.is_some_and(|next| distance(next, first) <= 0) {
                let moment = segment.moment;
                self.in_order(first, segment.payload, moment, bytes, counters, take);
                self.catch_up(None, bytes, counters, take);
            }
            return;
        }
        let place = self
            .ahead
            .iter()
            .rposition(|(other, ..)| distance(*other, first) >= 0);
        let place = place.map_or(0, |before| before + 1);
        let kept = (first, segment.moment, segment.payload.to_vec());
        self.ahead.insert(place, kept);
    }

    /// Takes the segments that waited for what has come. `moment`: of the packet that filled the gap; `None` where nothing did.
    fn catch_up(
        &mut self,
        moment: Option<Moment>,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        while let Some((first, ..)) = self.ahead.front()
            && self.next.is_some_and(|next| distance(next, *first) <= 0)
            && let Some((first, own, payload)) = self.ahead.pop_front()
        {
            bytes.give_back(payload.len());
            self.in_order(
                first,
                &payload,
                moment.unwrap_or(own),
                bytes,
                counters,
                take,
            );
        }
    }

    /// Cuts what came next into messages.
    fn frames(
        &mut self,
        new: &[u8],
        moment: Moment,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        if !self.following {
            // A message begins where a segment does, or in none that can be told from its body.
            self.framer = framer();
            self.following = self.framer.next(new).is_ok();
            self.framer = framer();
            if !self.following {
                counters.add(Counter::TcpNotSip, 1);
                return;
            }
        }
        let mut held = std::mem::take(&mut self.begun);
        bytes.give_back(held.len());
        let is_held = !held.is_empty();
        if is_held {
            held.extend_from_slice(new);
        }
        let whole: &[u8] = if is_held { &held } else { new };
        let Some(taken) = self.messages(whole, moment, counters, take) else {
            self.lose_track(bytes);
            return;
        };
        let rest = whole.get(taken..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        if !bytes.take(rest.len()) {
            counters.add(Counter::TcpFull, 1);
            self.lose_track(bytes);
        } else if is_held && taken == 0 {
            self.begun = held;
        } else {
            self.begun = rest.to_vec();
        }
    }

    /// Gives the messages that are whole. Octets of them, or `None` where no message can begin.
    fn messages(
        &mut self,
        whole: &[u8],
        moment: Moment,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) -> Option<usize> {
        let mut taken = 0;
        loop {
            let rest = whole.get(taken..).unwrap_or_default();
            match self.framer.next(rest) {
                Ok(Frame::Message(length)) => {
                    take(rest.get(..length).unwrap_or(rest), moment, counters);
                    taken += length;
                }
                Ok(Frame::Ping(length) | Frame::Crlf(length)) => {
                    counters.add(Counter::KeepAlives, 1);
                    taken += length;
                }
                Ok(Frame::Incomplete) => return Some(taken),
                Err(_) => {
                    counters.add(Counter::TcpNotSip, 1);
                    return None;
                }
            }
        }
    }

    /// What began cannot be completed: the next message is awaited.
    fn lose_track(&mut self, bytes: &mut Bytes) {
        bytes.give_back(self.begun.len());
        self.begun = Vec::new();
        self.framer = framer();
        self.following = false;
    }

    fn give_up(&mut self, bytes: &mut Bytes) {
        self.give_back(bytes);
        self.begun = Vec::new();
        self.ahead.clear();
        self.framer = framer();
        self.following = false;
    }
}
