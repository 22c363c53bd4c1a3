//! The table of client transactions, and how one of them sends.

use crate::ClientId;
use crate::client_invite::State as Invite;
use crate::client_non_invite::State as NonInvite;
use crate::schedule::Schedule;
use crate::slab::Slab;
use crate::step::Keep;
use sip_message::{Message, Method, write_ack};
use sip_transport::{Flow, Output};

/// One client transaction. Hundreds of thousands linger for 64*T1: see `a_lingering_transaction_is_small`.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) owner: u64,
    /// The request as sent, or in its place the ACK of a non-2xx final response.
    pub(crate) kept: Option<Box<[u8]>>,
    /// `None` until it is started.
    pub(crate) flow: Option<Flow>,
    /// The transaction of the CANCEL of this INVITE.
    pub(crate) cancel: ClientId,
    pub(crate) generation: u32,
    pub(crate) schedule: Schedule,
    pub(crate) machine: Machine,
    /// The transaction of a CANCEL: the transaction user does not know of it.
    pub(crate) internal: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Machine {
    /// The branch is being written.
    Reserved,
    Invite(Invite),
    NonInvite(NonInvite),
}

/// All client transactions.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) slab: Slab<Client>,
}

impl Clients {
    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.slab
            .get(id.index)
            .filter(|client| client.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.slab
            .get_mut(id.index)
            .filter(|client| client.generation == id.generation)
    }
}

impl Client {
    pub(crate) const fn reserved(owner: u64, generation: u32) -> Self {
        Self {
            owner,
            kept: None,
            flow: None,
            cancel: ClientId::NONE,
            generation,
            schedule: Schedule::new(false),
            machine: Machine::Reserved,
            internal: false,
        }
    }

    pub(crate) const fn id(&self, index: u32) -> ClientId {
        ClientId {
            index,
            generation: self.generation,
        }
    }

    /// Whether the request had that method. Once it is forgotten any will do: what comes then is absorbed anyway.
    pub(crate) fn sent(&self, method: Method<'_>) -> bool {
        self.kept.as_deref().is_none_or(|request| {
            request
                .strip_prefix(method.as_bytes())
                .is_some_and(|rest| rest.starts_with(b" "))
        })
    }

    /// Sends a message to where the request goes, and keeps it where the machine says so.
    pub(crate) fn send<Q>(
        &mut self,
        output: &mut Output<Q>,
        keep: Keep,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(flow) = self.flow else { return };
        let range = output.send(flow, write);
        if keep == Keep::Sent {
            self.kept = Some(output.written(range).into());
        }
    }

    pub(crate) fn send_again<Q>(&self, output: &mut Output<Q>) {
        if let (Some(flow), Some(kept)) = (self.flow, self.kept.as_deref()) {
            output.send(flow, |into| into.extend_from_slice(kept));
        }
    }

    /// The ACK of a non-2xx final response (section 17.1.1.3).
    pub(crate) fn send_ack<Q>(
        &mut self,
        output: &mut Output<Q>,
        keep: Keep,
        response: &Message<'_>,
    ) {
        let Some(kept) = self.kept.take() else { return };
        if let Ok(invite) = Message::parse(&kept) {
            self.send(output, keep, |into| write_ack(into, &invite, response));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lingering_transaction_is_small() {
        let size = size_of::<Option<Client>>();
        println!("client transaction: {size} bytes in its slab");
        assert!(size <= 104, "{size} bytes");
    }
}
