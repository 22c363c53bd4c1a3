//! Server transactions: matching (RFC 3261 section 17.2.3), and what they send.

use crate::schedule::{Owner, Schedule, Side};
use crate::server_invite::State as Invite;
use crate::server_non_invite::State as NonInvite;
use crate::server_table::{Machine, Server, halves};
use crate::step::{Class, Keep, Send, Step, Tell};
use crate::timer::{Timer, Timing};
use crate::{Event, Full, Kind, RequestMatch, Transactions};
use sip_message::{Method, TransactionKey};
use sip_transport::{Flow, Output, Time};
use std::ops::Range;

/// Names a server transaction; stale ids are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Transactions {
    /// Matches a received request (section 17.2.3). `key` is that of `KeyHasher::server_transaction`.
    pub fn receive_request<Q>(
        &mut self,
        now: Time,
        key: TransactionKey,
        method: Method<'_>,
        output: &mut Output<Q>,
    ) -> RequestMatch {
        let Some(index) = self.servers.find(key) else {
            return RequestMatch::New;
        };
        let Some(server) = self.servers.slab.get(index) else {
            return RequestMatch::New;
        };
        let step = match (server.machine, method) {
            (Machine::Invite(state), Method::Ack) => state
                .ack(self.timing(server.schedule.reliable))
                .map(Machine::Invite),
            (Machine::Invite(state), _) => state.invite().map(Machine::Invite),
            (Machine::NonInvite(state), _) => state.request().map(Machine::NonInvite),
        };
        if step.send == Send::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        self.follow_server(now, index, step);
        if step.tell == Tell::Message {
            return RequestMatch::New;
        }
        self.stats.requests_absorbed += 1;
        RequestMatch::Absorbed
    }

    /// Begins a server transaction, for a request that `receive_request` called new. `reliable`: the transport delivers by itself
    /// (`Protocol::is_reliable`).
    pub fn create_server(
        &mut self,
        _now: Time,
        key: TransactionKey,
        kind: Kind,
        flow: Flow,
        reliable: bool,
        owner: u64,
    ) -> Result<ServerId, Full> {
        if self.servers.len() >= self.limits.servers {
            self.stats.full += 1;
            return Err(Full);
        }
        let generation = self.next_generation();
        let machine = match kind {
            Kind::Invite => Machine::Invite(Invite::INITIAL),
            Kind::NonInvite => Machine::NonInvite(NonInvite::INITIAL),
        };
        let schedule = Schedule::new(reliable);
        let index = self.servers.insert(Server {
            key: halves(key),
            owner,
            kept: None,
            flow,
            generation,
            schedule,
            machine,
        });
        self.stats.servers_created += 1;
        Ok(ServerId { index, generation })
    }

    /// Sends a response through a server transaction and drives its machine. Writes nothing and returns `None` when the
    /// transaction is gone or has sent its final response already (a 2xx after a 2xx of an INVITE still passes: RFC 6026), or
    /// when the status code is none.
    pub fn respond<Q>(
        &mut self,
        now: Time,
        id: ServerId,
        status: u16,
        output: &mut Output<Q>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let class = Class::of(status)?;
        let server = self.servers.get(id)?;
        let timing = self.timing(server.schedule.reliable);
        let step = match (server.machine, class) {
            (Machine::Invite(state), Class::Provisional) => {
                state.provisional(timing).map(Machine::Invite)
            }
            (Machine::Invite(state), Class::Success) => state.success(timing).map(Machine::Invite),
            (Machine::Invite(state), Class::Failure) => state.failure(timing).map(Machine::Invite),
            (Machine::NonInvite(state), Class::Provisional) => {
                state.provisional(timing).map(Machine::NonInvite)
            }
            (Machine::NonInvite(state), _) => state.final_response(timing).map(Machine::NonInvite),
        };
        if step.send != Send::Given {
            return None;
        }
        let range = output.send(server.flow, write);
        if step.keep == Keep::Sent
            && let Some(server) = self.servers.slab.get_mut(id.index)
        {
            server.kept = Some(output.written(range.clone()).into());
        }
        self.follow_server(now, id.index, step);
        Some(range)
    }

    /// The server transaction with that key (CANCEL: `KeyHasher::cancelled_transaction`).
    pub fn find_server(&self, key: TransactionKey) -> Option<ServerId> {
        let index = self.servers.find(key)?;
        Some(self.servers.slab.get(index)?.id(index))
    }

    /// What the transaction user gave, while the transaction lives.
    pub fn server_owner(&self, id: ServerId) -> Option<u64> {
        Some(self.servers.get(id)?.owner)
    }

    /// Changes what belongs to it (a parked request goes on to be proxied).
    pub fn set_server_owner(&mut self, id: ServerId, owner: u64) {
        if let Some(server) = self.servers.get_mut(id) {
            server.owner = owner;
        }
    }

    /// Where its responses go.
    pub fn server_flow(&self, id: ServerId) -> Option<Flow> {
        Some(self.servers.get(id)?.flow)
    }

    /// Whether a final response has been sent (or the transaction is gone).
    pub fn server_is_final(&self, id: ServerId) -> bool {
        self.servers
            .get(id)
            .is_none_or(|server| match server.machine {
                Machine::Invite(state) => state != Invite::Proceeding,
                Machine::NonInvite(state) => state == NonInvite::Completed,
            })
    }

    /// Ends a non-INVITE server transaction without a final response: what a proxy does when nobody answered in time (RFC 4320 section
    /// 4.2). Retransmissions are still absorbed, in silence, until Timer J.
    pub fn silence_server(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if let Machine::NonInvite(state) = server.machine {
            let timing = self.timing(server.schedule.reliable);
            let step = state.silence(timing).map(Machine::NonInvite);
            self.follow_server(now, id.index, step);
        }
    }

    /// A timer of a server transaction has fired.
    pub(crate) fn server_timer<Q>(
        &mut self,
        now: Time,
        index: u32,
        timer: Timer,
        output: &mut Output<Q>,
    ) -> Option<Event> {
        let server = self.servers.slab.get_mut(index)?;
        let timing = Timing {
            settings: self.settings,
            reliable: server.schedule.reliable,
        };
        let retransmissions = server.schedule.fired();
        let step = match (server.machine, timer) {
            (Machine::Invite(state), Timer::G) => {
                state.timer_g(timing, retransmissions).map(Machine::Invite)
            }
            (Machine::Invite(state), Timer::H) => state.timer_h().map(Machine::Invite),
            (Machine::Invite(state), Timer::I) => state.timer_i().map(Machine::Invite),
            (Machine::Invite(state), Timer::L) => state.timer_l().map(Machine::Invite),
            (Machine::NonInvite(state), Timer::J) => state.timer_j().map(Machine::NonInvite),
            _ => return None,
        };
        if step.send == Send::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        let event = Event::ServerUnacknowledged {
            id: server.id(index),
            owner: server.owner,
        };
        self.follow_server(now, index, step);
        (step.tell == Tell::Timeout).then_some(event)
    }

    /// The new state of a server transaction, its timers and what it forgets.
    fn follow_server(&mut self, now: Time, index: u32, step: Step<Machine>) {
        let Some(machine) = step.next else {
            return self.end_server(index);
        };
        let Some(server) = self.servers.slab.get_mut(index) else {
            return;
        };
        server.machine = machine;
        if step.keep == Keep::Nothing {
            server.kept = None;
        }
        server.schedule.follow(
            step.timers,
            now,
            &mut self.wheel,
            Owner {
                side: Side::Server,
                index,
            },
        );
    }

    fn end_server(&mut self, index: u32) {
        if let Some(mut server) = self.servers.remove(index) {
            server.schedule.stop(&mut self.wheel);
            self.stats.servers_ended += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, TimerSettings};
    use sip_transport::ListenerId;

    const NOW: Time = Time::from_unix_seconds(1_763_600_000);

    fn transactions() -> Transactions {
        let limits = Limits {
            servers: 100_000,
            clients: 0,
        };
        Transactions::new(NOW, TimerSettings::default(), limits, 0)
    }

    fn create(all: &mut Transactions, key: u128, kind: Kind) -> ServerId {
        let flow = Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into());
        all.create_server(NOW, TransactionKey(key), kind, flow, false, 0)
            .expect("room")
    }

    #[test]
    fn what_will_not_be_sent_again_is_forgotten() {
        let mut all = transactions();
        let mut output = Output::<()>::default();
        let mut respond = |all: &mut Transactions, id: ServerId, status| {
            all.respond(NOW, id, status, &mut output, |into| into.push(b'x'));
            all.servers
                .get(id)
                .is_some_and(|server| server.kept.is_some())
        };
        let (accepted, refused) = (
            create(&mut all, 1, Kind::Invite),
            create(&mut all, 2, Kind::Invite),
        );
        assert!(respond(&mut all, accepted, 180) && !respond(&mut all, accepted, 200));
        assert!(respond(&mut all, refused, 486));
        all.receive_request(
            NOW,
            TransactionKey(2),
            Method::Ack,
            &mut Output::<()>::default(),
        );
        assert!(
            all.servers
                .get(refused)
                .is_some_and(|server| server.kept.is_none())
        );
    }
}
