//! GSO batches (generic segmentation offload): messages to one address that are ready together are passed to the kernel as one
//! buffer, which it segments as late as possible (`UDP_SEGMENT`). All messages of a GSO batch have the same length; only the last
//! may be shorter. Messages to one address keep their order.

use super::send::BATCH;
use sip_transport::Outgoing;
use std::net::SocketAddr;

/// Longer messages are not put in a GSO batch: it is never fragmented, so each part must fit the path MTU, including headers.
const LONGEST: usize = 1_200;

/// How many of the latest GSO batches a message may join.
const LOOK_BACK: usize = 4;

/// A GSO batch: messages that are sent together, and their destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct GsoBatch {
    pub(super) remote: SocketAddr,
    /// Length of each message. The last one may be shorter.
    pub(super) length: u16,
    /// The number of messages.
    pub(super) count: u8,
    /// Index of the first message in [`Plan::order`].
    pub(super) first: u8,
    /// Whether no more messages may join, for example because the last one was shorter.
    is_closed: bool,
}

/// How a batch of messages is sent: in which GSO batches and in which order.
#[derive(Debug)]
pub(super) struct Plan {
    gso_batches: Vec<GsoBatch>,
    /// The GSO batch of each message.
    gso_batch_of: [u8; BATCH],
    /// Indexes of the messages, ordered by GSO batch.
    order: [u8; BATCH],
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            gso_batches: Vec::with_capacity(BATCH),
            gso_batch_of: [0; BATCH],
            order: [0; BATCH],
        }
    }

    /// Makes a new plan, for at most [`BATCH`] messages.
    pub(super) fn make(&mut self, messages: &[Outgoing], may_use_gso: impl Fn(SocketAddr) -> bool) {
        self.gso_batches.clear();
        for (message, gso_batch_of) in messages.iter().zip(&mut self.gso_batch_of) {
            let length = message.range.len();
            let remote = message.flow.remote;
            let found = find(&self.gso_batches, remote, length).filter(|_| may_use_gso(remote));
            let place = found.unwrap_or(self.gso_batches.len());
            *gso_batch_of = place as u8;
            match self.gso_batches.get_mut(place) {
                Some(gso_batch) => {
                    gso_batch.count += 1;
                    gso_batch.is_closed = length < usize::from(gso_batch.length);
                }
                None => self.gso_batches.push(GsoBatch {
                    remote,
                    length: u16::try_from(length).unwrap_or(u16::MAX),
                    count: 1,
                    first: 0,
                    is_closed: length == 0 || length > LONGEST,
                }),
            }
        }
        let mut first = 0;
        for gso_batch in &mut self.gso_batches {
            gso_batch.first = first;
            first += gso_batch.count;
            gso_batch.count = 0;
        }
        for (place, gso_batch) in self.gso_batch_of.iter().take(messages.len()).enumerate() {
            if let Some(gso_batch) = self.gso_batches.get_mut(usize::from(*gso_batch))
                && let Some(slot) = self
                    .order
                    .get_mut(usize::from(gso_batch.first + gso_batch.count))
            {
                *slot = place as u8;
                gso_batch.count += 1;
            }
        }
    }

    pub(super) fn gso_batches(&self) -> &[GsoBatch] {
        &self.gso_batches
    }

    /// Indexes of the messages of a GSO batch, in order.
    pub(super) fn places(&self, gso_batch: &GsoBatch) -> &[u8] {
        let first = usize::from(gso_batch.first);
        self.order
            .get(first..first + usize::from(gso_batch.count))
            .unwrap_or_default()
    }
}

/// The GSO batch that a message may join. Only the latest one to its address qualifies, so that messages are not reordered.
fn find(gso_batches: &[GsoBatch], remote: SocketAddr, length: usize) -> Option<usize> {
    let latest = gso_batches.len().saturating_sub(LOOK_BACK);
    let place = gso_batches
        .iter()
        .skip(latest)
        .rposition(|gso_batch| gso_batch.remote == remote)?
        + latest;
    let gso_batch = gso_batches.get(place)?;
    (!gso_batch.is_closed && (1..=usize::from(gso_batch.length)).contains(&length)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::{Flow, ListenerId};

    /// Checks the GSO batches of messages given as `(port, length)`. The expected GSO batches are lists of message indexes.
    fn check(messages: &[(u16, usize)], gso_enabled: bool, expected: &[&[u8]]) {
        let messages: Vec<Outgoing> = messages
            .iter()
            .map(|(port, length)| Outgoing {
                flow: Flow::to(ListenerId(0), ([127, 0, 0, 1], *port).into()),
                range: 0..*length,
            })
            .collect();
        let mut plan = Plan::new();
        for _ in 0..2 {
            plan.make(&messages, |_| gso_enabled);
            let gso_batches: Vec<&[u8]> = plan
                .gso_batches()
                .iter()
                .map(|gso_batch| plan.places(gso_batch))
                .collect();
            assert_eq!(gso_batches, expected);
        }
    }

    #[test]
    fn equal_messages_to_one_address_leave_together() {
        check(&[(1, 300), (1, 300), (1, 300)], true, &[&[0, 1, 2]]);
        check(
            &[(1, 300), (2, 900), (1, 300), (2, 900)],
            true,
            &[&[0, 2], &[1, 3]],
        );
    }

    #[test]
    fn a_shorter_one_is_the_last_of_its_train_and_a_longer_one_begins_another() {
        check(
            &[(1, 300), (1, 200), (1, 200), (1, 300)],
            true,
            &[&[0, 1], &[2], &[3]],
        );
    }

    #[test]
    fn nothing_to_one_address_overtakes() {
        check(
            &[(1, 300), (1, 400), (1, 300), (1, 300)],
            true,
            &[&[0], &[1, 2], &[3]],
        );
    }

    #[test]
    fn long_and_empty_ones_leave_alone() {
        check(&[(1, 1_201), (1, 1_201)], true, &[&[0], &[1]]);
        check(&[(1, 1_201), (1, 300)], true, &[&[0], &[1]]);
        check(&[(1, 0), (1, 0)], true, &[&[0], &[1]]);
        check(&[(1, 100_000), (1, 5)], true, &[&[0], &[1]]);
    }

    #[test]
    fn without_trains_all_leave_alone() {
        check(&[(1, 300), (1, 300)], false, &[&[0], &[1]]);
    }

    #[test]
    fn a_train_far_back_is_not_looked_for() {
        check(
            &[(1, 9), (2, 9), (3, 9), (4, 9), (5, 9), (1, 9), (2, 9)],
            true,
            &[&[0], &[1], &[2], &[3], &[4], &[5], &[6]],
        );
    }
}
