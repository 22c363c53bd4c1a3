//! Bindings (RFC 3261 section 10) in the form in which they are saved.

use std::borrow::Cow;
use std::net::SocketAddr;

/// One contact of an address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRow<'a> {
    /// The contact URI as registered.
    pub contact: Cow<'a, [u8]>,
    /// Preference in thousandths.
    pub q: u16,
    /// When it expires, in seconds since the Unix epoch.
    pub expires_at: u32,
    /// Call-ID of the REGISTER that created it.
    pub call_id: Cow<'a, [u8]>,
    /// `CSeq` of the last REGISTER.
    pub cseq: u32,
    /// Path header field values, comma-joined, first hop first; empty if there are none (RFC 3327).
    pub path: Cow<'a, [u8]>,
    /// `+sip.instance` value (RFC 5626); empty if absent.
    pub instance: Cow<'a, [u8]>,
    /// User-Agent; empty if absent.
    pub user_agent: Cow<'a, [u8]>,
    /// Where the REGISTER came from.
    pub source: SocketAddr,
    /// The listener that received the REGISTER, as `transport:address`: listeners may change their order between starts.
    pub listener: Cow<'a, str>,
}

/// All bindings of one address of record. An empty list removes the saved bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBindings<'a> {
    /// `user@domain`, in canonical form.
    pub address: Cow<'a, [u8]>,
    /// Its current bindings.
    pub bindings: Vec<BindingRow<'a>>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Bindings passed to the callback.
    pub bindings: u64,
    /// Invalid rows that were skipped. The store writes none, so another program wrote them.
    pub unreadable: u64,
}
