//! An edge, driven without sockets.

mod calls;
mod hostile;
mod streams;
mod support;
