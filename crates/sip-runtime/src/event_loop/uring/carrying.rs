//! Sends and receives datagrams through the ring.

use super::Uring;
use crate::stats::WorkerStats;
use crate::udp::{Datagram, RingDatagrams, UdpSocket};
use io_uring::squeue;
use rustix::io::Errno;
use sip_transport::Outgoing;
use std::io;
use std::sync::Arc;
use tracing::error;

impl Uring {
    /// Carries the datagrams of these sockets, one per listener, from now on. A socket with
    /// datagrams is reported under the number of its listener. Call it once.
    pub(crate) fn carry_datagrams<'s>(
        &mut self,
        sockets: impl Iterator<Item = Option<&'s UdpSocket>>,
        gso_enabled: bool,
        stats: Arc<WorkerStats>,
    ) -> io::Result<()> {
        let mut datagrams = RingDatagrams::open(sockets, gso_enabled, stats)?;
        datagrams.register(&self.ring.submitter())?;
        self.datagrams = Some(Box::new(datagrams));
        Ok(())
    }

    /// Receives at most one batch of datagrams of a listener. Returns how many.
    pub(crate) fn receive(
        &mut self,
        listener: u16,
        take: impl FnMut(Datagram<'_>),
    ) -> Result<usize, Errno> {
        let is_empty = |it: &RingDatagrams| !it.has_arrived_at(listener);
        if self.datagrams.as_deref().is_some_and(is_empty) {
            let result = self.prepare().and_then(|()| self.look());
            result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        Ok(self
            .datagrams
            .as_mut()
            .map_or(0, |datagrams| datagrams.receive(listener, take)))
    }

    /// The next listener whose socket may have an entry in its error queue.
    pub(crate) fn take_returned(&mut self) -> Option<u16> {
        self.datagrams.as_mut()?.take_returned()
    }

    /// Queues messages, which the next wait sends in the order of the calls. See
    /// [`SendBatch::send`](crate::udp::SendBatch::send).
    pub(crate) fn send(&mut self, listener: u16, messages: &[Outgoing], bytes: &[u8]) {
        let mut rest = messages;
        loop {
            let Some(mut datagrams) = self.datagrams.take() else {
                return;
            };
            let queue = self.ring.submission();
            let room = queue.capacity() - queue.len();
            drop(queue);
            let mut push = |request: &squeue::Entry| self.try_push(request);
            let left = datagrams.queue(listener, rest, bytes, room, &mut push);
            self.datagrams = Some(datagrams);
            if left.is_empty() {
                return;
            }
            let is_stuck = left.len() == rest.len();
            rest = left;
            self.flush();
            if is_stuck && self.datagrams.as_ref().is_some_and(|it| it.in_flight() > 0) {
                self.drop_unsent(rest.len());
                return;
            }
        }
    }

    fn drop_unsent(&self, count: usize) {
        if let Some(datagrams) = &self.datagrams {
            datagrams.count_unsent(count);
        }
    }

    /// Sends what is queued, now.
    pub(crate) fn flush(&mut self) {
        let result = self.prepare().and_then(|()| self.look());
        if let Err(error) = result {
            error!(%error, "the ring failed");
        }
    }
}
