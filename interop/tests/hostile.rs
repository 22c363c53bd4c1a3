//! Attacks on the real server, one module for each subject. The targets that an attack must not reach are real sockets,
//! which would receive it.

#[path = "hostile/bans.rs"]
mod bans;
#[path = "hostile/dialogs.rs"]
mod dialogs;
#[path = "hostile/identity.rs"]
mod identity;
#[path = "hostile/rebinding.rs"]
mod rebinding;
#[path = "hostile/streams.rs"]
mod streams;
#[path = "hostile/tables.rs"]
mod tables;
