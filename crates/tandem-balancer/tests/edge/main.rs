//! An edge, driven without sockets.

mod calls;
mod hostile;
mod shares;
mod streams;
mod support;
