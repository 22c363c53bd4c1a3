//! The send queue of a connection: data that waits until the peer reads or the connection is open.

use std::collections::VecDeque;

/// Queued messages, and the encoded rest of earlier ones. The caller limits its size.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Encoded bytes, from `written` on: the part of earlier messages that the socket has not accepted.
    octets: Vec<u8>,
    written: usize,
    messages: VecDeque<Box<[u8]>>,
    /// Bytes of the messages.
    length: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.octets().is_empty()
    }

    /// Queued bytes.
    pub(super) fn length(&self) -> usize {
        self.length + self.octets().len()
    }

    /// Memory of the queue, in bytes.
    pub(super) fn room(&self) -> usize {
        self.length + self.octets.capacity() + self.messages.len() * size_of::<Box<[u8]>>()
    }

    /// The bytes to write next.
    pub(super) fn octets(&self) -> &[u8] {
        self.octets.get(self.written..).unwrap_or_default()
    }

    /// Records that the socket accepted `count` bytes.
    pub(super) fn advance(&mut self, count: usize) {
        self.written += count;
        if self.octets().is_empty() {
            self.octets = Vec::new();
            self.written = 0;
        }
    }

    /// Appends encoded bytes to those already queued.
    pub(super) fn push_octets(&mut self, octets: &[u8]) {
        // A peer that reads slowly may never empty the queue, so the written bytes are removed here.
        self.octets.drain(..self.written);
        self.written = 0;
        self.octets.extend_from_slice(octets);
    }

    pub(super) fn push(&mut self, message: Box<[u8]>) {
        self.length += message.len();
        self.messages.push_back(message);
    }

    /// The next message to encode.
    pub(super) fn first(&self) -> Option<&[u8]> {
        self.messages.front().map(AsRef::as_ref)
    }

    /// Removes the next message.
    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        let message = self.messages.pop_front()?;
        self.length -= message.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_go_before_messages_and_everything_is_counted() {
        let mut queue = Queue::default();
        assert!(queue.is_empty());
        queue.push_octets(b"rest");
        queue.push(b"one"[..].into());
        queue.push(b"three"[..].into());
        assert_eq!((queue.length(), queue.octets()), (12, &b"rest"[..]));
        queue.advance(3);
        assert_eq!((queue.length(), queue.octets()), (9, &b"t"[..]));
        queue.advance(1);
        assert_eq!(queue.pop().as_deref(), Some(&b"one"[..]));
        assert_eq!(queue.length(), 5);
        assert_eq!(queue.pop().as_deref(), Some(&b"three"[..]));
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn what_a_slow_reader_has_taken_takes_no_room() {
        let mut queue = Queue::default();
        for _ in 0..1_000 {
            queue.push_octets(&[b'x'; 1_000]);
            queue.advance(if queue.length() > 1_000 { 1_000 } else { 999 });
        }
        assert!(queue.length() <= 2_000);
        assert!(queue.octets.capacity() <= 8_000);
    }
}
