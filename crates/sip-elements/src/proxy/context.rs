//! A response context (RFC 3261 section 16.2): one request on its way to its targets, from the first branch to the final
//! response.

use super::breadth;
use super::forward::{self, Copy};
use super::response::{Best, Failure};
use super::route::RouteSet;
use super::table::Key;
use super::target::{Destination, Target};
use crate::{Question, Round, Ticket};
use sip_message::Message;
use sip_transaction::{ClientId, Kind, ServerId, TimerId, TimerWheel};
use sip_transport::{Flow, Time};
use smallvec::SmallVec;
use std::net::SocketAddr;

/// What a context has in hand while it acts.
pub(super) struct Turn<'t, 'r> {
    pub(super) round: &'t mut Round<'r>,
    /// Timer C and the other deadlines.
    pub(super) wheel: &'t mut TimerWheel<u64>,
    /// A buffer for patches.
    pub(super) scratch: &'t mut Vec<u8>,
    /// Who acts.
    pub(super) key: Key,
}

/// One request that is being proxied.
#[derive(Debug)]
pub(super) struct Context {
    /// Its server transaction; `None`: an ACK, to which nobody responds.
    pub(super) server: Option<ServerId>,
    /// Where the request came from.
    pub(super) source: Flow,
    /// When the request came.
    pub(super) received: Time,
    /// The request as received, while it may be needed for another target or a response of our own.
    pub(super) request: Option<Box<[u8]>>,
    pub(super) routes: RouteSet,
    /// For the branches: loop detection and proof.
    pub(super) suffix: u64,
    /// Incoming Max-Breadth: how many branches the request may have at a time, here and downstream.
    pub(super) breadth: u8,
    pub(super) branches: SmallVec<[Branch; 1]>,
    /// Targets not yet tried, the best one last.
    pub(super) targets: Vec<Target>,
    /// A target whose last address failed and that has others.
    pub(super) retry: Option<Box<Waiting>>,
    /// The best final response so far that did not go upstream at once.
    pub(super) best: Option<Box<Best>>,
    /// Place of the method in the metrics.
    pub(super) method: u8,
    pub(super) is_invite: bool,
    /// The caller gave up.
    pub(super) is_cancelled: bool,
    /// A final response went upstream, or none is to come.
    pub(super) is_concluded: bool,
}

/// One copy of the request and its client transaction (section 16.6).
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) client: Option<ClientId>,
    pub(super) deadline: Option<TimerId>,
    /// When timer C ends; each provisional response moves it.
    pub(super) timer_c: Time,
    /// What it waits to be sent with, or what it can be tried again with.
    pub(super) waiting: Option<Box<Waiting>>,
    pub(super) state: BranchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchState {
    /// The name of the next hop is being resolved.
    Resolving,
    /// Sent; no response yet.
    Calling,
    /// A provisional response came.
    Proceeding,
    /// Being cancelled: its final response is still to come. `late`: because timer C fired.
    Cancelling { late: bool },
    /// It has its final response, or none will come.
    Ended,
}

/// A target with the addresses that its name resolved to and that are not yet tried.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) target: Target,
    /// Its share of the Max-Breadth.
    pub(super) breadth: u8,
    /// The best one last.
    pub(super) addresses: Vec<SocketAddr>,
}

/// What came of sending a copy.
enum Launch {
    /// It left in this branch.
    Sent(u8),
    /// The name of its next hop is to be resolved first.
    Unresolved(Box<[u8]>, u16),
}

impl Context {
    /// Whether any branch may still bring a final response.
    pub(super) fn is_pending(&self) -> bool {
        self.branches
            .iter()
            .any(|branch| branch.state != BranchState::Ended)
    }

    /// Whether nothing can happen any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_concluded && self.retry.is_none() && !self.is_pending()
    }

    /// Whether something must be done for which the request is needed.
    pub(super) fn wants_request(&self) -> bool {
        !self.is_concluded && (self.retry.is_some() || !self.is_pending())
    }

    /// Goes on as far as possible: the next address of a failed target, the next group of targets, the final response.
    pub(super) fn proceed(&mut self, turn: &mut Turn<'_, '_>, request: &Message<'_>) {
        if let Some(waiting) = self.retry.take() {
            self.try_addresses(turn, request, None, waiting);
        }
        while !self.is_pending() && !self.targets.is_empty() {
            self.start_group(turn, request);
        }
        if !self.is_pending() && !self.is_concluded {
            self.conclude(turn, request);
        }
    }

    /// Forwards to all targets of the highest q at once (section 16.6: parallel among equals, serial otherwise). Where the
    /// Max-Breadth does not suffice the others wait until these have ended.
    fn start_group(&mut self, turn: &mut Turn<'_, '_>, request: &Message<'_>) {
        let q = self.targets.last().map(|target| target.q);
        let equals = self.targets.iter().rev();
        let equals = equals.take_while(|target| Some(target.q) == q);
        let branches = equals.take(usize::from(self.breadth).max(1)).count() as u8;
        for place in 0..branches {
            let Some(target) = self.targets.pop() else {
                return;
            };
            let share = breadth::share(self.breadth, branches, place);
            if let Err(failure) = self.start_branch(turn, request, target, share) {
                self.note_failure(failure);
            }
        }
    }

    fn start_branch(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        target: Target,
        breadth: u8,
    ) -> Result<(), Failure> {
        match self.launch(turn, request, &target, breadth, None, None)? {
            Launch::Sent(_) => Ok(()),
            Launch::Unresolved(host, port) => self.resolve(turn, host, port, target, breadth),
        }
    }

    /// Parks a branch on the name of its next hop.
    fn resolve(
        &mut self,
        turn: &mut Turn<'_, '_>,
        host: Box<[u8]>,
        port: u16,
        target: Target,
        breadth: u8,
    ) -> Result<(), Failure> {
        let waiting = Some(Box::new(Waiting {
            target,
            breadth,
            addresses: Vec::new(),
        }));
        let place = self.add_branch(BranchState::Resolving, waiting)?;
        let owner = turn.key.owner(place);
        turn.round.output.ask(Question::Resolve {
            ticket: Ticket(owner),
            host,
            port,
        });
        turn.round.metrics.questions.increment();
        let deadline = turn.round.now + turn.round.settings.question_deadline;
        self.arm(turn, place, deadline);
        Ok(())
    }

    /// The addresses of a branch that was parked on its name, best first.
    pub(super) fn resolved(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        place: u8,
        addresses: &[SocketAddr],
    ) {
        self.disarm(turn, place);
        let Some(mut waiting) = self
            .branches
            .get_mut(usize::from(place))
            .and_then(|branch| branch.waiting.take())
        else {
            return;
        };
        let most = turn.round.settings.proxy.max_targets.max(1);
        waiting.addresses.extend(addresses.iter().take(most).rev());
        self.try_addresses(turn, request, Some(place), waiting);
    }

    /// Sends to the first address that can be sent to; the others stay with the branch for when it fails.
    fn try_addresses(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        place: Option<u8>,
        mut waiting: Box<Waiting>,
    ) {
        let mut failure = Failure::Unreachable;
        while let Some(remote) = waiting.addresses.pop() {
            let (target, breadth) = (&waiting.target, waiting.breadth);
            match self.launch(turn, request, target, breadth, place, Some(remote)) {
                Ok(Launch::Sent(place)) => {
                    if let Some(branch) = self.branches.get_mut(usize::from(place)) {
                        branch.waiting =
                            Some(waiting).filter(|waiting| !waiting.addresses.is_empty());
                    }
                    return;
                }
                Ok(Launch::Unresolved(..)) => {}
                Err(reason) => failure = reason,
            }
        }
        if let Some(branch) = place.and_then(|place| self.branches.get_mut(usize::from(place))) {
            branch.state = BranchState::Ended;
        }
        self.note_failure(failure);
    }

    /// Sends a copy in a branch, that of `place` where it is given, to `remote` where the name of its next hop has been
    /// resolved.
    fn launch(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &Message<'_>,
        target: &Target,
        breadth: u8,
        place: Option<u8>,
        remote: Option<SocketAddr>,
    ) -> Result<Launch, Failure> {
        let hop = target.hop(&self.routes)?;
        let remote = match (remote, hop.destination) {
            (Some(remote), _) | (None, Destination::Address(remote)) => remote,
            (None, Destination::Name(host, port)) => {
                return Ok(Launch::Unresolved(host.into(), port));
            }
        };
        let copy = Copy::new(
            turn.round,
            request,
            self.source,
            target,
            &self.routes,
            &hop,
            remote,
        )?;
        if self.server.is_none() {
            forward::send_ack(turn.round, turn.scratch, &copy);
            self.branches.clear();
            self.is_concluded = true;
            return Ok(Launch::Sent(0));
        }
        let number = place.map_or_else(|| self.next_place(), Ok)?;
        let Ok(client) = turn
            .round
            .transactions
            .reserve_client(turn.key.owner(number))
        else {
            turn.round.metrics.refused_full.increment();
            return Err(Failure::Overloaded);
        };
        let kind = if self.is_invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        };
        let copy = copy.with_breadth(breadth);
        forward::send(turn.round, turn.scratch, &copy, client, kind, self.suffix);
        if place.is_none() {
            self.add_branch(BranchState::Calling, None)?;
        }
        if let Some(branch) = self.branches.get_mut(usize::from(number)) {
            branch.client = Some(client);
            branch.state = BranchState::Calling;
        }
        if self.is_invite {
            self.arm_invite(turn, number);
        }
        Ok(Launch::Sent(number))
    }

    /// The number of the next branch; there are no more than an owner can tell apart.
    fn next_place(&self) -> Result<u8, Failure> {
        let place = u8::try_from(self.branches.len())
            .ok()
            .filter(|place| *place < u8::MAX);
        place.ok_or(Failure::Overloaded)
    }

    fn add_branch(
        &mut self,
        state: BranchState,
        waiting: Option<Box<Waiting>>,
    ) -> Result<u8, Failure> {
        let place = self.next_place()?;
        self.branches.push(Branch {
            client: None,
            deadline: None,
            timer_c: Time::default(),
            waiting,
            state,
        });
        Ok(place)
    }

    /// Section 16.10, and after a 2xx or 6xx: nothing more is tried, what rings is cancelled.
    pub(super) fn cancel_pending(&mut self, turn: &mut Turn<'_, '_>) {
        self.targets = Vec::new();
        self.retry = None;
        for place in 0..self.branches.len() as u8 {
            let Some(branch) = self.branches.get_mut(usize::from(place)) else {
                return;
            };
            branch.waiting = None;
            match (branch.state, branch.client) {
                (BranchState::Calling | BranchState::Proceeding, Some(client))
                    if self.is_invite =>
                {
                    branch.state = BranchState::Cancelling { late: false };
                    turn.round.transactions.cancel_client(
                        turn.round.now,
                        client,
                        turn.round.output,
                    );
                    self.disarm(turn, place);
                }
                (BranchState::Resolving, _) => {
                    branch.state = BranchState::Ended;
                    self.disarm(turn, place);
                }
                _ => {}
            }
        }
    }

    /// A branch ends without a final response from downstream.
    pub(super) fn fail_branch(&mut self, turn: &mut Turn<'_, '_>, place: u8, failure: Failure) {
        self.disarm(turn, place);
        let Some(branch) = self.branches.get_mut(usize::from(place)) else {
            return;
        };
        branch.state = BranchState::Ended;
        let waiting = branch.waiting.take();
        self.note_failure(failure);
        self.try_again(waiting);
    }

    /// Another address of the same name is to be tried (RFC 3263 section 4.3), unless the matter is settled.
    pub(super) fn try_again(&mut self, waiting: Option<Box<Waiting>>) {
        if !self.is_concluded && !self.is_cancelled {
            self.retry = waiting;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_small() {
        let size = size_of::<Context>();
        println!("response context: {size} bytes and its request");
        assert!(size <= 320, "{size} bytes");
    }
}
