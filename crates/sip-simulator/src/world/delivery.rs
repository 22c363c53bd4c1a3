//! Delivers datagrams from one end to the other, and shows them to the observers.
use super::{Event, World};
use crate::host::Machine;
use crate::network::Fate;
use crate::observe::{Observation, Party, Seen};
use crate::trace::Mark;
use sip_transport::Time;
use std::net::SocketAddr;
use std::rc::Rc;

impl<M: Machine> World<M> {
    pub(super) fn send(
        &mut self,
        from: Party,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &Rc<[u8]>,
    ) {
        let now = self.now();
        let to = self
            .directory
            .get(&destination)
            .copied()
            .unwrap_or(Party::Nobody);
        let seen = Seen::read(bytes);
        self.statistics.sent += 1;
        self.observe(&Observation::Sent {
            from,
            source,
            to,
            destination,
            seen: seen.as_ref(),
        });
        if let (Party::Host(_), Party::Phone(phone), Some(seen)) = (from, to, &seen) {
            self.overhear(phone, seen);
        }
        let fate = self.network.carry(now, source.ip(), destination.ip());
        let mark = match fate {
            Fate::Lost => Mark::Lost,
            Fate::CutOff => Mark::CutOff,
            Fate::Delivered(_, None) => Mark::Sent,
            Fate::Delivered(..) => Mark::SentTwice,
        };
        self.trace
            .datagram(now, mark, (from, source), (to, destination), bytes);
        let Fate::Delivered(first, second) = fate else {
            self.statistics.lost += 1;
            return;
        };
        for delay in [Some(first), second].into_iter().flatten() {
            self.in_flight += 1;
            let bytes = Rc::clone(bytes);
            self.clock.plan(
                now + delay,
                Event::Datagram {
                    since: None,
                    destination,
                    source,
                    bytes,
                },
            );
        }
    }

    /// Returns a datagram to the machine that sent it, if the system of its receiver lives.
    fn return_datagram(
        &mut self,
        (from, source): (Party, SocketAddr),
        (to, destination): (Party, SocketAddr),
        bytes: Rc<[u8]>,
    ) {
        let (Party::Host(host), Party::Host(receiver)) = (from, to) else {
            return;
        };
        if self.hosts[receiver].returns_datagrams {
            let at = self.now() + self.network.weather().delay;
            let event = Event::Returned {
                host,
                destination,
                source,
                bytes,
            };
            self.clock.plan(at, event);
        }
    }

    /// Records accepted credentials for a replay: any response other than 100 or a rejection proves that they were
    /// accepted.
    pub(super) fn overhear(&mut self, phone: usize, response: &Seen<'_>) {
        let known = self
            .authorized
            .get(&phone)
            .filter(|(transaction, _)| *transaction == response.transaction());
        if let Some((_, bytes)) = known.filter(|_| (101..300).contains(&response.status)) {
            self.overheard = Some(Rc::clone(bytes));
        }
    }

    pub(super) fn arrive(
        &mut self,
        since: Option<Time>,
        destination: SocketAddr,
        source: SocketAddr,
        bytes: Rc<[u8]>,
    ) {
        let now = self.now();
        let to = self
            .directory
            .get(&destination)
            .copied()
            .unwrap_or(Party::Nobody);
        if let Party::Host(host) = to
            && self.hosts[host].stalled_until > now
        {
            let until = self.hosts[host].stalled_until;
            return self.clock.plan(
                until,
                Event::Datagram {
                    since: since.or(Some(now)),
                    destination,
                    source,
                    bytes,
                },
            );
        }
        self.in_flight -= 1;
        let from = self
            .directory
            .get(&source)
            .copied()
            .unwrap_or(Party::Nobody);
        let hears = match to {
            Party::Host(host) => self.hosts[host].is_up(),
            Party::Phone(phone) => self.phones[phone].is_alive(),
            Party::Nobody => false,
        };
        let mark = if hears { Mark::Arrived } else { Mark::Unheard };
        self.trace
            .datagram(now, mark, (from, source), (to, destination), &bytes);
        if !hears {
            return self.return_datagram((from, source), (to, destination), bytes);
        }
        let seen = Seen::read(&bytes);
        self.observe(&Observation::Delivered {
            from,
            source,
            to,
            seen: seen.as_ref(),
        });
        match to {
            Party::Host(host) => {
                let arrived = since.unwrap_or(now);
                self.run_receive(host, arrived, (source, destination), &bytes);
            }
            Party::Phone(phone) => self.with_phone(phone, |phone, output| {
                phone.receive(now, source, &bytes, output);
            }),
            Party::Nobody => {}
        }
    }
}
