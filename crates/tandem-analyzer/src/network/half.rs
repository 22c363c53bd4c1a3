//! The bytes that one side of a connection sent: reordered, and cut into messages.

use crate::capture::Moment;
use crate::counters::{Counter, Counters};
use sip_message::{Frame, Framer};
use std::collections::VecDeque;

/// Longest header and body of a message, in bytes.
const LONGEST: (usize, usize) = (65_536, 262_144);
/// Maximum number of segments per side that wait for an earlier one.
const MAX_SEGMENTS: usize = 256;
/// Largest distance of a sequence number from the expected one, in bytes. Beyond it, this is another connection, or much was not
/// captured.
const FARTHEST: u32 = 1 << 24;

/// A TCP segment and its capture time.
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

/// Waiting bytes in all connections, and their limit.
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

    const fn release(&mut self, count: usize) {
        self.used = self.used.saturating_sub(count);
    }
}

/// The bytes that one side of a connection sent.
#[derive(Debug)]
pub(super) struct Half {
    /// Sequence number of the next byte; `None` before the first.
    next: Option<u32>,
    /// Sequence number after the last byte, if FIN was seen.
    end: Option<u32>,
    /// Whether the position of messages is known. Otherwise the next message must begin with a segment.
    following: bool,
    framer: Framer,
    /// The beginning of an incomplete message.
    begun: Vec<u8>,
    /// Segments after a gap, sorted by sequence number.
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

/// Bytes from `from` to `to` in the circular sequence space; negative if `to` is before `from`.
const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

impl Half {
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    pub(super) fn release(&self, bytes: &mut Bytes) {
        bytes.release(self.begun.len());
        for (_, _, payload) in &self.ahead {
            bytes.release(payload.len());
        }
    }

    /// Processes a segment that this side sent.
    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        let mut first = segment.sequence;
        if segment.syn {
            // A new connection between the same ports, or a repeated SYN.
            first = first.wrapping_add(1);
            if self.next != Some(first) {
                self.release(bytes);
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
        let piece = (first, segment.moment, segment.payload);
        match distance(next, first) {
            away if away.unsigned_abs() > FARTHEST => {
                counters.add(Counter::TcpLost, 1);
                self.give_up(bytes);
                self.next = Some(first);
                self.in_order(piece, bytes, counters, take);
            }
            ahead if ahead > 0 => {
                counters.add(Counter::TcpOutOfOrder, 1);
                self.keep(first, segment, bytes, counters, take);
            }
            _ => {
                if !self.in_order(piece, bytes, counters, take) {
                    counters.add(Counter::TcpRetransmitted, 1);
                    return;
                }
                self.catch_up(Some(segment.moment), bytes, counters, take);
            }
        }
    }

    /// The other side has received all bytes before `number`. Those that were not seen were not captured.
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

    /// Continues after a gap.
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

    /// Processes the new part of bytes that begin at or before the expected one. Returns whether there is a new part.
    fn in_order(
        &mut self,
        (first, moment, payload): (u32, Moment, &[u8]),
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

    /// Stores a segment until the one before it arrives.
    fn keep(
        &mut self,
        first: u32,
        segment: &Segment<'_>,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        if self.ahead.len() >= MAX_SEGMENTS || !bytes.take(segment.payload.len()) {
            counters.add(Counter::TcpFull, 1);
            let resume = self.ahead.front().map_or(first, |(first, ..)| *first);
            self.skip_to(resume, bytes, counters, take);
            if self.next.is_some_and(|next| distance(next, first) <= 0) {
                let piece = (first, segment.moment, segment.payload);
                self.in_order(piece, bytes, counters, take);
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

    /// Processes the stored segments that follow now. `moment`: of the packet that filled the gap; `None` if none did.
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
            bytes.release(payload.len());
            let piece = (first, moment.unwrap_or(own), &payload[..]);
            self.in_order(piece, bytes, counters, take);
        }
    }

    /// Cuts the next bytes into messages.
    fn frames(
        &mut self,
        new: &[u8],
        moment: Moment,
        bytes: &mut Bytes,
        counters: &mut Counters,
        take: &mut impl FnMut(&[u8], Moment, &mut Counters),
    ) {
        if !self.following {
            // Only a message that begins with a segment can be distinguished from the body of another one.
            self.framer = framer();
            self.following = self.framer.next(new).is_ok();
            self.framer = framer();
            if !self.following {
                counters.add(Counter::TcpNotSip, 1);
                return;
            }
        }
        let mut held = std::mem::take(&mut self.begun);
        bytes.release(held.len());
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

    /// Emits the complete messages. Returns their bytes, or `None` if no message can begin here.
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

    /// The current message cannot be completed: wait for the next one.
    fn lose_track(&mut self, bytes: &mut Bytes) {
        bytes.release(self.begun.len());
        self.begun = Vec::new();
        self.framer = framer();
        self.following = false;
    }

    fn give_up(&mut self, bytes: &mut Bytes) {
        self.release(bytes);
        self.begun = Vec::new();
        self.ahead.clear();
        self.framer = framer();
        self.following = false;
    }
}
