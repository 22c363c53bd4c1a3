//! Lookups of next hops by name, which somebody outside the loop answers.

use sip_transport::selection::{Candidate, Destination};
use std::fmt;

/// Resolves the names of next hops (RFC 3263). The user agent calls it from its loop, so it must not block: it passes the lookup on to a
/// thread or task that answers later.
pub trait Resolve: Send + 'static {
    /// Takes a lookup. A lookup that is dropped counts as answered without candidates.
    fn resolve(&mut self, lookup: Lookup);
}

impl Resolve for Box<dyn Resolve> {
    fn resolve(&mut self, lookup: Lookup) {
        (**self).resolve(lookup);
    }
}

type Answer = Box<dyn FnOnce(Vec<Candidate>) + Send>;

/// A destination to resolve.
pub struct Lookup {
    destination: Destination,
    seed: u64,
    answer: Option<Answer>,
}

impl Lookup {
    pub(crate) fn new(
        destination: Destination,
        seed: u64,
        answer: impl FnOnce(Vec<Candidate>) + Send + 'static,
    ) -> Self {
        Self {
            destination,
            seed,
            answer: Some(Box::new(answer)),
        }
    }

    /// The name, with the port and transport of its URI.
    pub const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The random input of the choice by weight. It is the same for all requests of a call, so that the ACK goes where the INVITE went.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Answers with the candidates, best first, from any thread. It does not block.
    pub fn answer(mut self, candidates: Vec<Candidate>) {
        if let Some(answer) = self.answer.take() {
            answer(candidates);
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Vec::new());
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}
