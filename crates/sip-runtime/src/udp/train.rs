//! Trains: messages to one address that are ready together, given to the kernel as one piece and cut up by it where it is
//! cheapest (`UDP_SEGMENT`). All of a train are equally long but the last, which may be shorter. What goes to one address
//! keeps its order.

use super::send::BATCH;
use sip_transport::Outgoing;
use std::net::SocketAddr;

/// No longer message rides in a train: a train is not fragmented, so each part must fit the path, headers included.
const LONGEST: usize = 1_200;

/// A message looks for its train among the latest so many.
const LOOK_BACK: usize = 4;

/// Messages that leave together, and where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub(super) remote: SocketAddr,
    /// How long each message is, the last perhaps excepted.
    pub(super) length: u16,
    /// How many there are.
    pub(super) count: u8,
    /// Place of the first in [`Plan::order`].
    pub(super) first: u8,
    /// Its last message was shorter.
    is_closed: bool,
}

/// How a batch of messages leaves: in which trains, and in which order.
#[derive(Debug)]
pub(super) struct Plan {
    trains: Vec<Train>,
    /// For each message its train.
    train_of: [u8; BATCH],
    /// Places of the messages, train after train.
    order: [u8; BATCH],
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            trains: Vec::with_capacity(BATCH),
            train_of: [0; BATCH],
            order: [0; BATCH],
        }
    }

    /// Plans anew, for at most [`BATCH`] messages.
    pub(super) fn make(&mut self, messages: &[Outgoing], may_ride: impl Fn(SocketAddr) -> bool) {
        self.trains.clear();
        for (message, train_of) in messages.iter().zip(&mut self.train_of) {
            let length = message.range.len();
            let remote = message.flow.remote;
            let found = find(&self.trains, remote, length).filter(|_| may_ride(remote));
            let place = found.unwrap_or(self.trains.len());
            *train_of = place as u8;
            match self.trains.get_mut(place) {
                Some(train) => {
                    train.count += 1;
                    train.is_closed = length < usize::from(train.length);
                }
                None => self.trains.push(Train {
                    remote,
                    length: u16::try_from(length).unwrap_or(u16::MAX),
                    count: 1,
                    first: 0,
                    is_closed: length == 0 || length > LONGEST,
                }),
            }
        }
        let mut first = 0;
        for train in &mut self.trains {
            train.first = first;
            first += train.count;
            train.count = 0;
        }
        for (place, train) in self.train_of.iter().take(messages.len()).enumerate() {
            if let Some(train) = self.trains.get_mut(usize::from(*train))
                && let Some(slot) = self.order.get_mut(usize::from(train.first + train.count))
            {
                *slot = place as u8;
                train.count += 1;
            }
        }
    }

    pub(super) fn trains(&self) -> &[Train] {
        &self.trains
    }

    /// Places of a train's messages, in order.
    pub(super) fn places(&self, train: &Train) -> &[u8] {
        let first = usize::from(train.first);
        self.order
            .get(first..first + usize::from(train.count))
            .unwrap_or_default()
    }
}

/// The train that a message may join. Only the latest one to its address: it must not overtake.
fn find(trains: &[Train], remote: SocketAddr, length: usize) -> Option<usize> {
    let latest = trains.len().saturating_sub(LOOK_BACK);
    let place = trains
        .iter()
        .skip(latest)
        .rposition(|train| train.remote == remote)?
        + latest;
    let train = trains.get(place)?;
    (!train.is_closed && (1..=usize::from(train.length)).contains(&length)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::{Flow, ListenerId};

    /// Messages as `address:length`, and the trains they make, as places in the batch.
    fn check(messages: &[(u16, usize)], with_trains: bool, expected: &[&[u8]]) {
        let messages: Vec<Outgoing> = messages
            .iter()
            .map(|(port, length)| Outgoing {
                flow: Flow::to(ListenerId(0), ([127, 0, 0, 1], *port).into()),
                range: 0..*length,
            })
            .collect();
        let mut plan = Plan::new();
        for _ in 0..2 {
            plan.make(&messages, |_| with_trains);
            let trains: Vec<&[u8]> = plan
                .trains()
                .iter()
                .map(|train| plan.places(train))
                .collect();
            assert_eq!(trains, expected);
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
