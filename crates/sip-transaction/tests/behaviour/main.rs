//! What the transaction layer does, seen from outside: two of them against each other under virtual time.

mod cancel;
mod invite;
mod lossy;
mod non_invite;
mod tables;
mod world;
