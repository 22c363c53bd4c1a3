//! The table of client transactions, by place and by key, and how a client transaction sends.

use crate::branch::{Branch, ClientKey};
use crate::client_invite::State as Invite;
use crate::client_non_invite::State as NonInvite;
use crate::places::Places;
use crate::schedule::Schedule;
use crate::step::Keep;
use crate::{Account, ClientId, Ledger};
use sip_message::{Message, Method, write_ack};
use sip_transport::{Flow, Output, Slab, SlabId, Tenant};

/// Requests longer than this are worth a copy of the header, to free the body.
const LONG: usize = 4096;

/// One client transaction. Hundreds of thousands linger for 64*T1, so it must be small: see
/// `a_lingering_transaction_is_small`.
#[derive(Debug)]
pub(crate) struct Client<O> {
    pub(crate) owner: O,
    /// The request as sent; after a non-2xx final response, the ACK instead.
    pub(crate) kept: Option<Box<[u8]>>,
    /// `None` until the transaction is started.
    pub(crate) flow: Option<Flow>,
    /// `None` for a request of our own, which is found by its place.
    pub(crate) key: Option<ClientKey>,
    /// The transaction of the CANCEL of this INVITE.
    pub(crate) cancel: ClientId,
    pub(crate) generation: u32,
    /// The account that it is charged to.
    pub(crate) account: Account,
    /// The bytes of `kept` that the ledger has counted.
    pub(crate) counted: u32,
    pub(crate) schedule: Schedule,
    pub(crate) machine: Machine,
    /// Whether this is the transaction of a CANCEL, which the transaction user does not see.
    pub(crate) internal: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Machine {
    /// The id is given out, but the request is not sent yet.
    Reserved,
    Invite(Invite),
    NonInvite(NonInvite),
}

#[derive(Debug)]
pub(crate) struct Clients<O> {
    pub(crate) slab: Slab<Client<O>>,
    by_key: Places,
    /// Parts of the keys that were removed lately, each at the place that its lowest bits name. 0: none.
    ended: Box<[u32]>,
}

/// How many keys of ended transactions are remembered at most. 16 KiB.
const REMEMBERED: usize = 4096;

impl<O> Tenant for Client<O> {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<O> Clients<O> {
    /// Creates an empty table. Generations start after `epoch`.
    pub(crate) fn new(epoch: u32) -> Self {
        Self {
            slab: Slab::new(epoch),
            by_key: Places::new(),
            ended: vec![0; REMEMBERED].into(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Inserts a reserved transaction. A request of our own has no key.
    pub(crate) fn insert(
        &mut self,
        owner: O,
        account: Account,
        key: Option<ClientKey>,
    ) -> ClientId {
        let make = |id: SlabId| Client::reserved(owner, id.generation, account, key);
        let id = self.slab.insert(make);
        if let Some(key) = key {
            self.by_key.insert(key.tag(), id.index);
        }
        ClientId(id)
    }

    /// Removes and returns the transaction at this place.
    pub(crate) fn remove_at(&mut self, index: u32) -> Option<Client<O>> {
        let client = self.slab.remove_at(index)?;
        if let Some(key) = client.key {
            self.by_key.remove(key.tag(), index);
            if let Some(place) = self.ended.get_mut(key.tag() as usize % REMEMBERED) {
                *place = key.tag();
            }
        }
        Some(client)
    }

    /// Whether a transaction with the key in this branch has ended here lately.
    pub(crate) fn has_ended(&self, branch: &Branch) -> bool {
        let tag = branch.key().tag();
        tag != 0 && self.ended.get(tag as usize % REMEMBERED) == Some(&tag)
    }

    /// The transaction with this branch that `is_wanted`. The INVITE and a CANCEL that was sent without it may have the same branch.
    pub(crate) fn find(
        &self,
        branch: &Branch,
        is_wanted: impl Fn(&Client<O>) -> bool,
    ) -> Option<ClientId> {
        let place = branch.place();
        if self
            .slab
            .get(place)
            .is_some_and(|client| client.key.is_none() && is_wanted(client))
        {
            return Some(ClientId(place));
        }
        let key = branch.key();
        let is_it = |client: &Client<O>| client.key == Some(key) && is_wanted(client);
        let index = self
            .by_key
            .find(key.tag(), |index| self.slab.at(index).is_some_and(is_it))?;
        Some(self.slab.at(index)?.id(index))
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<&Client<O>> {
        self.slab.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client<O>> {
        self.slab.get_mut(id.0)
    }
}

impl<O> Client<O> {
    pub(crate) const fn reserved(
        owner: O,
        generation: u32,
        account: Account,
        key: Option<ClientKey>,
    ) -> Self {
        Self {
            owner,
            kept: None,
            flow: None,
            key,
            cancel: ClientId::NONE,
            generation,
            account,
            counted: 0,
            schedule: Schedule::new(false),
            machine: Machine::Reserved,
            internal: false,
        }
    }

    pub(crate) const fn id(&self, index: u32) -> ClientId {
        ClientId(SlabId {
            index,
            generation: self.generation,
        })
    }

    /// Updates the ledger with the bytes that are kept now.
    pub(crate) fn count(&mut self, ledger: &mut Ledger) {
        let kept = self.kept.as_deref().map_or(0, <[u8]>::len);
        if kept != self.counted as usize {
            ledger.hold(self.account, self.counted as usize, kept);
            self.counted = kept as u32;
        }
    }

    /// Drops the body of a request that will not be sent again: its header is enough for ACK and CANCEL.
    pub(crate) fn forget_body(&mut self) {
        let long = self.kept.as_deref().filter(|kept| kept.len() > LONG);
        let Some(kept) = long else {
            return;
        };
        let end = kept.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            self.kept = kept.get(..end + 4).map(Into::into);
        }
    }

    /// Whether the request had that method. If the request is no longer kept, every method matches: the response
    /// is absorbed anyway.
    pub(crate) fn sent(&self, method: Method<'_>) -> bool {
        self.kept.as_deref().is_none_or(|request| {
            request
                .strip_prefix(method.as_bytes())
                .is_some_and(|rest| rest.starts_with(b" "))
        })
    }

    /// Sends a message to the request's flow, and keeps it if the machine says so.
    pub(crate) fn send<Q, R>(
        &mut self,
        output: &mut Output<Q, R>,
        domain: Option<&[u8]>,
        keep: Keep,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(flow) = self.flow else { return };
        let range = output.send_to(flow, domain, write);
        if keep == Keep::Sent {
            self.kept = Some(output.written(range).into());
        }
    }

    pub(crate) fn send_again<Q, R>(&self, output: &mut Output<Q, R>) {
        if let (Some(flow), Some(kept)) = (self.flow, self.kept.as_deref()) {
            output.send(flow, |into| into.extend_from_slice(kept));
        }
    }

    /// Sends the ACK of a non-2xx final response (section 17.1.1.3).
    pub(crate) fn send_ack<Q, R>(
        &mut self,
        output: &mut Output<Q, R>,
        keep: Keep,
        response: &Message<'_>,
    ) {
        let Some(kept) = self.kept.take() else { return };
        if let Ok(invite) = Message::parse(&kept) {
            self.send(output, None, keep, |into| {
                write_ack(into, &invite, response);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lingering_transaction_is_small() {
        let size = size_of::<Option<Client<[u32; 3]>>>();
        println!("client transaction: {size} bytes in its slab");
        assert!(size <= 120, "{size} bytes");
    }
}
