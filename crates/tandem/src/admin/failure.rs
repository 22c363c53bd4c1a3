//! Failures of calls, with their error codes.

/// Error codes of the specification, and our own.
pub(super) mod code {
    pub(in crate::admin) const PARSE_ERROR: i64 = -32_700;
    pub(in crate::admin) const INVALID_REQUEST: i64 = -32_600;
    pub(in crate::admin) const METHOD_NOT_FOUND: i64 = -32_601;
    pub(in crate::admin) const INVALID_PARAMS: i64 = -32_602;
    pub(in crate::admin) const INTERNAL_ERROR: i64 = -32_603;
    /// Our own: the call is valid, but the current state does not allow it.
    pub(in crate::admin) const REFUSED: i64 = -32_000;
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
    /// Detail lines, sent as `data`.
    pub(super) details: Vec<String>,
}

impl Failure {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    pub(super) fn refused(problem: impl std::fmt::Display) -> Self {
        Self::new(code::REFUSED, problem.to_string())
    }

    pub(super) fn internal(problem: impl std::fmt::Display) -> Self {
        Self::new(code::INTERNAL_ERROR, problem.to_string())
    }
}
