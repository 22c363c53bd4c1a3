//! The timers of response contexts.

use crate::owner::{BranchId, ContextId};

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// Timer C of a branch, or another limit on it (`deadlines.rs`).
    Branch(BranchId),
    /// The responses of a context that wait (`waiting.rs`).
    Waiting(ContextId),
    /// The phones of a callee have rung for as long as it wants (`diversions.rs`).
    NoAnswer(ContextId),
}
