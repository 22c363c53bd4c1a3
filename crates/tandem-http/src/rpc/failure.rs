//! Failures of calls, with their error codes.

/// Error codes of the specification, and our own.
pub mod code {
    /// The body is no JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// The JSON is no request.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// No method has this name.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The parameters are not those of the method.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// The fault is on this side.
    pub const INTERNAL_ERROR: i64 = -32_603;
    /// Our own: the call is valid, but the current state does not allow it.
    pub const REFUSED: i64 = -32_000;
    /// Our own: what the call names does not exist.
    pub const NOT_FOUND: i64 = -32_001;
    /// Our own: what the call needs is not there yet, or not at the moment.
    pub const UNAVAILABLE: i64 = -32_002;
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of [`code`].
    pub code: i64,
    /// What is wrong and how to fix it.
    pub message: String,
    /// Detail lines, sent as `data`.
    pub details: Vec<String>,
}

impl Failure {
    /// A failure without details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// The current state does not allow the call.
    pub fn refused(problem: impl std::fmt::Display) -> Self {
        Self::new(code::REFUSED, problem.to_string())
    }

    /// The fault is on this side.
    pub fn internal(problem: impl std::fmt::Display) -> Self {
        Self::new(code::INTERNAL_ERROR, problem.to_string())
    }
}
