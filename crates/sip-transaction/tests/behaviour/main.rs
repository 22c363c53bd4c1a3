//! Black-box tests of the transaction layer: two instances against each other under virtual time.

mod cancel;
mod invite;
mod keys;
mod lossy;
mod non_invite;
mod tables;
mod world;
