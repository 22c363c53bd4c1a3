//! Identifiers of what owns a transaction, a timer or a question to the control plane.

use sip_dialog::DialogId;
use sip_transport::SlabId;

/// Identifies a response context of the proxy (RFC 3261 section 16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(pub(crate) SlabId);

/// Identifies a branch of a response context, a probe of a gateway, or a registration there, whose next hop is being resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BranchId {
    pub(crate) context: ContextId,
    /// Which branch, from 0.
    pub(crate) place: u8,
}

impl BranchId {
    /// The place that stands for a probe. No response context has so many branches.
    pub(crate) const PROBE: u8 = u8::MAX;
    /// The place that stands for a registration.
    pub(crate) const REGISTRATION: u8 = u8::MAX - 1;
    /// The place of questions about servers that are reached without a transaction. Branches have smaller numbers.
    pub(crate) const SERVER: u8 = u8::MAX - 2;
}

/// Identifies a probe of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId(pub(crate) SlabId);

/// Identifies the registration of this server at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegistrationId(pub(crate) SlabId);

/// Identifies a request that waits for an answer of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParkedId(pub(crate) SlabId);

/// Identifies a response that waits for an answer of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseId {
    pub(crate) context: ContextId,
    /// Which question of the context, from 1.
    pub(crate) number: u32,
}

/// Identifies a message whose session description the control plane is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescribedId {
    /// A parked request.
    Request(ParkedId),
    /// A response on its way upstream.
    Response(ResponseId),
}

/// The owner of a transaction. The transaction layer returns it with each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The response context of a server transaction.
    Context(ContextId),
    /// The response context of a client transaction, and the number of its branch.
    Branch(ContextId, u8),
    /// The dialog that the INVITE of a server transaction has created, or that the BYE of a client transaction has ended.
    Dialog(DialogId),
    /// The probe of a client transaction.
    Probe(ProbeId),
    /// The registration of a client transaction.
    Registration(RegistrationId),
}
