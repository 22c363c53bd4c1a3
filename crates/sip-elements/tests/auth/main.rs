//! Digest authentication as a phone sees it: challenges are parsed, answered and judged; what is forged, old or replayed is not
//! accepted, and says no more than it must.

mod challenges;
mod credentials;
mod guessing;
mod nonces;
mod phone;
mod server;
