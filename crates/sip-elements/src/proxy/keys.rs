//! How the requests of a dialog are recognised: by the number of the call, its Call-ID and both tags.

use crate::routing::proof;
use crate::routing::route::tags;
use sip_message::{KeyHasher, Message};

/// The keys of the remote targets of a request's sender and receiver ([`proof::target_key`]). The key of a dialog is that of its callee.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys {
    pub(super) of_sender: u64,
    pub(super) of_receiver: u64,
}

impl Keys {
    /// Whether one of them is this key.
    pub(super) const fn has(self, key: u64) -> bool {
        self.of_sender == key || self.of_receiver == key
    }

    /// The keys of a request inside the dialog of this call.
    pub(super) fn of(request: &Message<'_>, call: u32, hasher: &KeyHasher) -> Self {
        let call_id = request.call_id().unwrap_or_default();
        let (from, to) = tags(request).unwrap_or_default();
        Self {
            of_sender: proof::target_key(call, call_id, (from, to), hasher),
            of_receiver: proof::target_key(call, call_id, (to, from), hasher),
        }
    }
}
