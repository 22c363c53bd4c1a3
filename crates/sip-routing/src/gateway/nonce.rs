//! The nonce that a gateway has accepted last. All workers use it for new requests, so that a challenge does not cost each call a round trip.

use super::server::Gateway;
use super::statistics::count;
use arc_swap::ArcSwapOption;
use sip_message::HeaderName;
use sip_message::digest::{ClientNonce, Credential, Line};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The known nonce of a gateway.
#[derive(Debug, Default)]
pub(super) struct KnownNonces(ArcSwapOption<KnownNonce>);

/// A nonce that a gateway has accepted, and how often it has been used.
#[derive(Debug)]
pub struct KnownNonce {
    /// The header field that answers its challenge.
    name: HeaderName,
    nonce: ClientNonce,
    count: AtomicU32,
}

impl KnownNonce {
    /// The header field with credentials for a request with this method and Request-URI. Each use has a nonce count of its own.
    pub fn authorize(&self, credential: &Credential, asked: (&[u8], &[u8]), cnonce: &[u8]) -> Line {
        let count = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        let mut value = Vec::new();
        let account = credential.account();
        self.nonce
            .authorize_as(count, account, asked, cnonce, &mut value);
        (self.name, value.into())
    }
}

impl Gateway {
    /// What answers its challenges.
    pub const fn credential(&self) -> Option<&Credential> {
        self.description.credential.as_ref()
    }

    /// The nonce that it has accepted last.
    pub fn known_nonce(&self) -> Option<Arc<KnownNonce>> {
        self.nonces.0.load_full()
    }

    /// Keeps a nonce that it has accepted, for other requests.
    pub fn keep_nonce(&self, name: HeaderName, nonce: &ClientNonce) {
        self.nonces.0.store(Some(Arc::new(KnownNonce {
            name,
            nonce: nonce.clone(),
            count: AtomicU32::new(nonce.count()),
        })));
    }

    /// Forgets a nonce that it does not accept any longer, unless another one has taken its place.
    pub fn forget_nonce(&self, known: &Arc<KnownNonce>) {
        self.nonces.0.compare_and_swap(known, None);
    }

    /// Counts a challenge.
    pub fn challenged(&self, is_answered: bool) {
        let counters = &self.state.calls.counters;
        count(if is_answered {
            &counters.challenges_answered
        } else {
            &counters.challenges_refused
        });
    }
}
