//! A method of the JSON-RPC interface.
use crate::control::{Control, Running};
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use tandem_http::rpc::{Arguments, Failure, Params};

/// What a method needs.
pub(super) enum Run {
    /// It works in every phase.
    Always(for<'c> fn(&'c Control, Arguments) -> Outcome<'c>),
    /// It is refused while the server starts.
    WhenRunning(for<'c> fn(&'c Control, &'c Running, Arguments) -> Outcome<'c>),
}

pub(super) type Outcome<'c> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'c>>;

/// A method.
pub struct Method {
    /// Name in the form `noun.verb`.
    pub name: &'static str,
    /// One-sentence description.
    pub summary: &'static str,
    /// Parameters in order.
    pub params: Params,
    pub(super) run: Run,
}

impl std::fmt::Debug for Method {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}
