//! Datagrams: sockets, and the two system calls that move many datagrams at once.

mod address;
mod receive;
mod send;
mod socket;
mod train;

pub(crate) use receive::{Expected, ReceiveBatch};
pub(crate) use send::SendBatch;
pub(crate) use socket::{Buffers, Sharing, SocketError, UdpSocket};
