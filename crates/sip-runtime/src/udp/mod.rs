//! UDP: the sockets, and sending and receiving in batches, by `recvmmsg` and `sendmmsg` or through
//! a ring.

mod address;
mod gso_batch;
mod gso_support;
mod receive;
mod returned;
mod ring;
mod send;
mod socket;
mod stamp;
mod steering;

pub(crate) use receive::{Datagram, Expected, ReceiveBatch};
pub use returned::IcmpError;
pub(crate) use returned::{ErrorQueue, may_be_of_another};
pub(crate) use ring::RingDatagrams;
pub(crate) use send::SendBatch;
pub(crate) use socket::{Buffers, Sharing, SocketError, UdpSocket};
pub(crate) use steering::steer;
