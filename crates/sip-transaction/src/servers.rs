//! Server transactions: matching of requests (RFC 3261 section 17.2.3), and sending.

use crate::credit::Credit;
use crate::schedule::{Place, Schedule, Side};
use crate::server_invite::State as Invite;
use crate::server_non_invite::State as NonInvite;
use crate::server_table::{Machine, Server, halves};
use crate::step::{Class, Keep, Step, Tell, Transmit};
use crate::timer::{Timer, Timing};
use crate::{Account, Event, Full, Kind, RequestMatch, Sender, Table, Transactions};
use sip_message::{Method, TransactionKey};
use sip_transport::{Flow, Output, SlabId, Time};
use std::ops::Range;

/// Identifies a server transaction. A stale id is recognised by its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub(crate) SlabId);

/// A request for which a server transaction is created.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The result of `KeyHasher::server_transaction`.
    pub key: TransactionKey,
    /// INVITE or not.
    pub kind: Kind,
    /// Where its responses go.
    pub flow: Flow,
    /// Whether the transport is reliable.
    pub reliable: bool,
    /// What its sender has proved.
    pub sender: Sender,
    /// Length of the request in bytes.
    pub size: usize,
}

impl<O: Copy> Transactions<O> {
    /// Matches a received request of `size` bytes (section 17.2.3). `key` is the result of `KeyHasher::server_transaction`.
    pub fn receive_request<Q, R>(
        &mut self,
        now: Time,
        key: TransactionKey,
        method: Method<'_>,
        size: usize,
        output: &mut Output<Q, R>,
    ) -> RequestMatch {
        let Some(index) = self.servers.find(key) else {
            return RequestMatch::New;
        };
        let (settings, amplification) = (self.settings, self.limits.amplification);
        let Some(server) = self.servers.slab.at_mut(index) else {
            return RequestMatch::New;
        };
        server.credit.earn(size, amplification);
        let timing = Timing {
            settings,
            reliable: server.schedule.reliable,
        };
        let step = match (server.machine, method) {
            (Machine::Invite(state), Method::Ack) => state.ack(timing).map(Machine::Invite),
            (Machine::Invite(state), _) => state.invite().map(Machine::Invite),
            (Machine::NonInvite(state), _) => state.request().map(Machine::NonInvite),
        };
        if step.send == Transmit::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        self.follow_server(now, index, step);
        if step.tell == Tell::Message {
            return RequestMatch::New;
        }
        self.stats.requests_absorbed += 1;
        RequestMatch::Absorbed
    }

    /// Creates a server transaction for a request that `receive_request` reported as new. `reliable` is the result of
    /// `Protocol::is_reliable`.
    ///
    /// # Errors
    /// The table is full, or the messages that transactions keep have reached their limit.
    pub fn create_server(
        &mut self,
        key: TransactionKey,
        kind: Kind,
        flow: Flow,
        reliable: bool,
    ) -> Result<ServerId, Full> {
        if self.servers.len() >= self.limits.servers || self.ledger.bytes() >= self.limits.bytes {
            self.stats.full += 1;
            return Err(Full);
        }
        let admission = Admission {
            key,
            kind,
            flow,
            reliable,
            sender: Sender::Known(None),
            size: 0,
        };
        Ok(self.insert_server(&admission, Account::KNOWN))
    }

    /// Creates a server transaction for a request of any sender, within the share of its source. It may send at most three times the bytes
    /// received, unless its sender is known or its transport proves the address. The proof of a dialog does not prove the address.
    pub fn admit_server(&mut self, admission: &Admission) -> Result<ServerId, Full> {
        let (live, limit) = (self.servers.len(), self.limits.servers);
        let account = self
            .ledger
            .enter(Table::Servers, admission.sender, live, limit)?;
        Ok(self.insert_server(admission, account))
    }

    fn insert_server(&mut self, admission: &Admission, account: Account) -> ServerId {
        let machine = match admission.kind {
            Kind::Invite => Machine::Invite(Invite::INITIAL),
            Kind::NonInvite => Machine::NonInvite(NonInvite::INITIAL),
        };
        let credit = if account.may_be_spoofed() && !admission.reliable {
            Credit::of_request(admission.size, self.limits.amplification)
        } else {
            Credit::UNLIMITED
        };
        self.stats.servers_created += 1;
        self.servers.insert(admission.key, |id| Server {
            key: halves(admission.key),
            owner: None,
            kept: None,
            flow: admission.flow,
            generation: id.generation,
            account,
            credit,
            schedule: Schedule::new(admission.reliable),
            machine,
            has_responded: false,
        })
    }

    /// Records that the sender of a request has proved something. The request moves to the matching share. The credit becomes unlimited if
    /// the sender cannot be at another address.
    ///
    /// # Errors
    /// There is no room in that share. Nothing has changed.
    pub fn know_server(&mut self, id: ServerId, sender: Sender) -> Result<(), Full> {
        let (others, limit) = (self.servers.len().saturating_sub(1), self.limits.servers);
        let Some(server) = self.servers.get_mut(id) else {
            return Ok(());
        };
        let account = self.ledger.enter(Table::Servers, sender, others, limit)?;
        let kept = server.kept.as_deref().map_or(0, <[u8]>::len);
        self.ledger.hold(server.account, kept, 0);
        self.ledger.leave(Table::Servers, server.account);
        server.account = account;
        self.ledger.hold(server.account, 0, kept);
        if !account.may_be_spoofed() {
            server.credit = Credit::UNLIMITED;
        }
        Ok(())
    }

    /// The key that its request was matched by.
    pub fn server_key(&self, id: ServerId) -> Option<TransactionKey> {
        let [low, high] = self.servers.get(id)?.key;
        Some(TransactionKey(u128::from(high) << 64 | u128::from(low)))
    }

    /// The account that it is charged to. Everything that belongs to the request is charged to the same account.
    pub fn server_account(&self, id: ServerId) -> Option<Account> {
        Some(self.servers.get(id)?.account)
    }

    /// Drops a server transaction. A retransmission of its request is then new.
    pub fn abandon_server(&mut self, id: ServerId) {
        if self.servers.get(id).is_some() {
            self.end_server(id.0.index);
        }
    }

    /// Sends a response through a server transaction and drives its machine.
    ///
    /// It sends nothing and returns `None` if the transaction has ended, if it has already sent its final response, or if the status code
    /// is invalid. A 2xx of an INVITE may follow another 2xx (RFC 6026). The range is empty if the credit is used up; a final response is
    /// then sent when the request is retransmitted.
    pub fn respond<Q, R>(
        &mut self,
        now: Time,
        id: ServerId,
        status: u16,
        output: &mut Output<Q, R>,
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
        if step.send != Transmit::Given {
            return None;
        }
        let range = if server.credit.is_limited() {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.send_on_credit(id.0.index, class, step.keep, bytes, output)
        } else {
            let range = output.send(server.flow, write);
            if step.keep == Keep::Sent
                && let Some(server) = self.servers.slab.at_mut(id.0.index)
            {
                let bytes = output.written(range.clone()).into();
                server.keep(Some(bytes), &mut self.ledger);
            }
            range
        };
        if let Some(server) = self.servers.slab.at_mut(id.0.index) {
            server.has_responded |= !range.is_empty();
        }
        self.follow_server(now, id.0.index, step);
        Some(range)
    }

    /// Sends a response to an unproven sender, if its credit allows it. The first 2xx is always sent: it is one message, and the call is
    /// lost without it.
    fn send_on_credit<Q, R>(
        &mut self,
        index: u32,
        class: Class,
        keep: Keep,
        bytes: Vec<u8>,
        output: &mut Output<Q, R>,
    ) -> Range<usize> {
        let Some(server) = self.servers.slab.at_mut(index) else {
            return 0..0;
        };
        let is_first = !matches!(server.machine, Machine::Invite(Invite::Accepted));
        let may_go = match class {
            Class::Provisional => server.credit.spend_on_provisional(bytes.len()),
            Class::Success | Class::Failure => server.credit.spend(bytes.len()),
        };
        let goes = may_go || (class == Class::Success && is_first);
        if !may_go && goes {
            server.credit.exhaust();
        }
        let range = if goes {
            output.send(server.flow, |into| into.extend_from_slice(&bytes))
        } else {
            self.stats.responses_withheld += 1;
            0..0
        };
        if keep == Keep::Sent && (goes || class != Class::Provisional) {
            server.keep(Some(bytes.into()), &mut self.ledger);
        }
        range
    }

    /// The server transaction with this key. For a CANCEL, use `KeyHasher::cancelled_transaction`.
    pub fn find_server(&self, key: TransactionKey) -> Option<ServerId> {
        let index = self.servers.find(key)?;
        Some(self.servers.slab.at(index)?.id(index))
    }

    /// The value that the transaction user set, while the transaction lives.
    pub fn server_owner(&self, id: ServerId) -> Option<O> {
        self.servers.get(id)?.owner
    }

    /// Sets the value that events return to the transaction user.
    pub fn set_server_owner(&mut self, id: ServerId, owner: O) {
        if let Some(server) = self.servers.get_mut(id) {
            server.owner = Some(owner);
        }
    }

    /// Whether it has sent a response, a provisional one included.
    pub fn server_has_responded(&self, id: ServerId) -> bool {
        self.servers
            .get(id)
            .is_some_and(|server| server.has_responded)
    }

    /// The flow that its responses go to.
    pub fn server_flow(&self, id: ServerId) -> Option<Flow> {
        Some(self.servers.get(id)?.flow)
    }

    /// Whether a final response has been sent, or the transaction has ended.
    pub fn server_is_final(&self, id: ServerId) -> bool {
        self.servers
            .get(id)
            .is_none_or(|server| match server.machine {
                Machine::Invite(state) => state != Invite::Proceeding,
                Machine::NonInvite(state) => state == NonInvite::Completed,
            })
    }

    /// Ends a non-INVITE server transaction without a final response, as a proxy does after a timeout (RFC 4320 section 4.2).
    /// Retransmissions are still absorbed, without a response, until Timer J.
    pub fn silence_server(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if let Machine::NonInvite(state) = server.machine {
            let timing = self.timing(server.schedule.reliable);
            let step = state.silence(timing).map(Machine::NonInvite);
            self.follow_server(now, id.0.index, step);
        }
    }

    /// Handles a timer of a server transaction that has fired.
    pub(crate) fn server_timer<Q, R>(
        &mut self,
        now: Time,
        index: u32,
        timer: Timer,
        output: &mut Output<Q, R>,
    ) -> Option<Event<O>> {
        let server = self.servers.slab.at_mut(index)?;
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
        if step.send == Transmit::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        let event = Event::ServerUnacknowledged {
            id: server.id(index),
            owner: server.owner,
        };
        self.follow_server(now, index, step);
        (step.tell == Tell::Timeout).then_some(event)
    }

    /// Applies the new state of a server transaction: its timers and what it keeps.
    fn follow_server(&mut self, now: Time, index: u32, step: Step<Machine>) {
        let Some(machine) = step.next else {
            return self.end_server(index);
        };
        let Some(server) = self.servers.slab.at_mut(index) else {
            return;
        };
        server.machine = machine;
        if step.keep == Keep::Nothing {
            server.keep(None, &mut self.ledger);
        }
        server.schedule.follow(
            step.timers,
            now,
            &mut self.wheel,
            Place {
                side: Side::Server,
                index,
            },
        );
    }

    fn end_server(&mut self, index: u32) {
        if let Some(mut server) = self.servers.remove(index) {
            server.schedule.stop(&mut self.wheel);
            server.keep(None, &mut self.ledger);
            self.ledger.leave(Table::Servers, server.account);
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

    fn transactions() -> Transactions<()> {
        let limits = Limits {
            servers: 100_000,
            clients: 0,
            bytes: 1 << 20,
            amplification: 3,
        };
        let hasher = sip_message::KeyHasher::new((1, 2));
        Transactions::new(NOW, TimerSettings::default(), limits, hasher, 0)
    }

    fn create(all: &mut Transactions<()>, key: u128, kind: Kind) -> ServerId {
        let flow = Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into());
        all.create_server(TransactionKey(key), kind, flow, false)
            .expect("room")
    }

    #[test]
    fn what_will_not_be_sent_again_is_forgotten() {
        let mut all = transactions();
        let mut output = Output::<()>::default();
        let mut respond = |all: &mut Transactions<()>, id: ServerId, status| {
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
            100,
            &mut Output::<()>::default(),
        );
        assert!(
            all.servers
                .get(refused)
                .is_some_and(|server| server.kept.is_none())
        );
    }
}
