//! Tests of digest authentication from a phone's point of view. Challenges are parsed, answered and judged. Forged, old
//! and replayed credentials are rejected and reveal no more than they must.

mod challenges;
mod credentials;
mod guessing;
mod nonces;
mod phone;
mod server;
