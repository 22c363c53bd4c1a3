//! The table of server transactions, by place and by key.

use crate::credit::Credit;
use crate::places::Places;
use crate::schedule::Schedule;
use crate::server_invite::State as Invite;
use crate::server_non_invite::State as NonInvite;
use crate::{Account, Ledger, ServerId};
use sip_message::TransactionKey;
use sip_transport::{Flow, Output, Slab, SlabId, Tenant};

/// One server transaction. Hundreds of thousands linger for 64*T1, so it must be small: see `a_lingering_transaction_is_small`.
#[derive(Debug)]
pub(crate) struct Server<O> {
    /// The key in halves, because a `u128` would be aligned to 16 bytes.
    pub(crate) key: [u64; 2],
    /// `None` until the transaction user sets it.
    pub(crate) owner: Option<O>,
    /// The last response, for retransmission.
    pub(crate) kept: Option<Box<[u8]>>,
    pub(crate) flow: Flow,
    pub(crate) generation: u32,
    /// The account that it is charged to.
    pub(crate) account: Account,
    /// The bytes that it may still send.
    pub(crate) credit: Credit,
    pub(crate) schedule: Schedule,
    pub(crate) machine: Machine,
    /// A response has been sent.
    pub(crate) has_responded: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Machine {
    Invite(Invite),
    NonInvite(NonInvite),
}

/// All server transactions, by place and by key.
#[derive(Debug)]
pub(crate) struct Servers<O> {
    pub(crate) slab: Slab<Server<O>>,
    by_key: Places,
}

pub(crate) const fn halves(key: TransactionKey) -> [u64; 2] {
    [key.0 as u64, (key.0 >> 64) as u64]
}

impl<O> Tenant for Server<O> {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<O> Servers<O> {
    /// Creates an empty table. Generations start after `epoch`.
    pub(crate) const fn new(epoch: u32) -> Self {
        Self {
            slab: Slab::new(epoch),
            by_key: Places::new(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn find(&self, key: TransactionKey) -> Option<u32> {
        let key = halves(key);
        let has_key = |index| {
            let server = self.slab.at(index);
            server.is_some_and(|server| server.key == key)
        };
        self.by_key.find(key[0] as u32, has_key)
    }

    pub(crate) fn get(&self, id: ServerId) -> Option<&Server<O>> {
        self.slab.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: ServerId) -> Option<&mut Server<O>> {
        self.slab.get_mut(id.0)
    }

    /// Inserts the transaction that `make` returns for its id, under this key.
    pub(crate) fn insert(
        &mut self,
        key: TransactionKey,
        make: impl FnOnce(SlabId) -> Server<O>,
    ) -> ServerId {
        let id = self.slab.insert(make);
        self.by_key.insert(halves(key)[0] as u32, id.index);
        ServerId(id)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Server<O>> {
        let server = self.slab.remove_at(index)?;
        self.by_key.remove(server.key[0] as u32, index);
        Some(server)
    }
}

impl<O> Server<O> {
    pub(crate) const fn id(&self, index: u32) -> ServerId {
        ServerId(SlabId {
            index,
            generation: self.generation,
        })
    }

    /// Replaces the kept response.
    pub(crate) fn keep(&mut self, bytes: Option<Box<[u8]>>, ledger: &mut Ledger) {
        let length = |kept: Option<&[u8]>| kept.map_or(0, <[u8]>::len);
        let before = length(self.kept.as_deref());
        // Beyond the bound the response is not kept: if it is lost, it stays lost.
        let fits = |bytes: &[u8]| ledger.has_room(bytes.len());
        self.kept = bytes.filter(|bytes| fits(bytes));
        ledger.hold(self.account, before, length(self.kept.as_deref()));
    }

    /// Sends the kept response again; `false` if there is none, or no credit.
    pub(crate) fn send_again<Q, R>(&mut self, output: &mut Output<Q, R>) -> bool {
        let Some(kept) = self.kept.as_deref() else {
            return false;
        };
        if !self.credit.spend(kept.len()) {
            return false;
        }
        output.send(self.flow, |into| into.extend_from_slice(kept));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::ListenerId;

    fn insert(servers: &mut Servers<()>, key: u128) -> u32 {
        let key = TransactionKey(key);
        let ServerId(id) = servers.insert(key, |id| Server {
            key: halves(key),
            owner: None,
            kept: None,
            flow: Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into()),
            generation: id.generation,
            account: Account::KNOWN,
            credit: Credit::UNLIMITED,
            schedule: Schedule::new(false),
            machine: Machine::Invite(Invite::INITIAL),
            has_responded: false,
        });
        id.index
    }

    #[test]
    fn a_lingering_transaction_is_small() {
        let size = size_of::<Option<Server<[u32; 2]>>>();
        println!("server transaction: {size} bytes in its slab");
        assert!(size <= 120, "{size} bytes");
    }

    #[test]
    fn the_table_follows_the_slab_and_gives_memory_back() {
        let mut servers = Servers::new(0);
        let indexes: Vec<u32> = (0..50_000).map(|key| insert(&mut servers, key)).collect();
        let grown = servers.by_key.num_buckets();
        for index in indexes {
            assert!(servers.remove(index).is_some());
            assert_eq!(servers.by_key.len(), servers.len());
        }
        assert_eq!(servers.len(), 0);
        assert!(servers.by_key.num_buckets() < grown / 4);
    }

    #[test]
    fn similar_keys_are_distinguished() {
        let mut servers = Servers::new(0);
        let keys: Vec<u128> = (0..20).map(|n| n << 32 | 7).collect();
        let indexes: Vec<u32> = keys.iter().map(|&key| insert(&mut servers, key)).collect();
        for (n, &index) in indexes.iter().enumerate().rev() {
            servers.remove(index);
            let found: Vec<u32> = keys
                .iter()
                .filter_map(|&key| servers.find(TransactionKey(key)))
                .collect();
            assert_eq!(found, indexes[..n]);
        }
    }
}
