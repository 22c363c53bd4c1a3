//! Datagrams: sockets, and what moves many datagrams at once: two system calls, or a ring.

mod address;
mod receive;
mod refusals;
mod ring;
mod send;
mod socket;
mod stamp;
mod steering;
mod train;

pub(crate) use receive::{Datagram, Expected, ReceiveBatch};
pub(crate) use ring::RingDatagrams;
pub(crate) use send::SendBatch;
pub(crate) use socket::{Buffers, Sharing, SocketError, UdpSocket};
pub(crate) use steering::steer;
