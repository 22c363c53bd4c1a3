//! Handles descriptor exhaustion: new connections are refused at once, and no listener keeps its worker busy.

use super::close::RefuseReason;
use super::connections::Connections;
use super::listening::Listening;
use crate::event_loop::{EventLoop, Interest};
use sip_transport::{ListenerId, Time};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tracing::error;

/// How long a listener is not watched when there is no descriptor to refuse connections with.
const REST: Duration = Duration::from_millis(100);

/// The reserve descriptor for refusing connections, and the listeners that wait for one.
#[derive(Debug, Default)]
pub(super) struct DescriptorReserve {
    /// Closed for a moment to accept a queued connection, which is then closed.
    reserve: Option<File>,
    paused: Vec<ListenerId>,
    until: Option<Time>,
    /// Whether this worker counts in [`Wanted`].
    needs_reserve: bool,
}

/// How many workers have closed their reserve descriptor and need one back. While any does, an accepted connection has taken the
/// descriptor that the worker needs.
#[derive(Debug, Default)]
pub(crate) struct Wanted(AtomicUsize);

impl Wanted {
    /// Whether a new connection must be refused, so that a worker gets its reserve descriptor back.
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl DescriptorReserve {
    /// Opens the reserve descriptor.
    pub(super) fn open() -> Self {
        Self {
            reserve: open_reserve(),
            ..Self::default()
        }
    }

    /// When to watch the paused listeners again.
    pub(super) const fn until(&self) -> Option<Time> {
        self.until
    }
}

impl Connections {
    /// Refuses one connection when no descriptor is left to accept with. The kernel reports this error whether a connection
    /// is queued or not.
    pub(super) fn refuse_one(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        id: ListenerId,
        listening: &Listening,
    ) {
        self.set_reserve_needed(true);
        let had_reserve = self.descriptor_reserve.reserve.take().is_some();
        let is_somebody = !had_reserve || listening.accept().is_ok();
        if is_somebody {
            self.refused(RefuseReason::NoDescriptor);
        }
        self.restore_reserve();
        if self.descriptor_reserve.reserve.is_none() {
            // Another thread took the descriptor. A queued connection would keep the listener ready all the time.
            self.rest(now, event_loop, id, listening);
        }
    }

    fn restore_reserve(&mut self) {
        let reserve = self.descriptor_reserve.reserve.take();
        self.descriptor_reserve.reserve = reserve.or_else(open_reserve);
        self.set_reserve_needed(self.descriptor_reserve.reserve.is_none());
    }

    fn set_reserve_needed(&mut self, wants: bool) {
        let wanted = &self.shared.wanted.0;
        match (self.descriptor_reserve.needs_reserve, wants) {
            (false, true) => drop(wanted.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(wanted.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
        self.descriptor_reserve.needs_reserve = wants;
    }

    fn rest(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        id: ListenerId,
        listening: &Listening,
    ) {
        let token = usize::from(id.0);
        if let Err(error) = event_loop.change(listening.as_fd(), token, Interest::NOTHING) {
            error!(worker = self.worker, %error, "cannot stop watching a listener");
            return;
        }
        self.descriptor_reserve.paused.push(id);
        self.descriptor_reserve.until = Some(now + REST);
    }

    /// The listeners whose pause is over; they must be watched again.
    pub(crate) fn take_resumed_listeners(&mut self, now: Time) -> Vec<ListenerId> {
        if self
            .descriptor_reserve
            .until
            .is_none_or(|until| until > now)
        {
            return Vec::new();
        }
        self.restore_reserve();
        self.descriptor_reserve.until = None;
        std::mem::take(&mut self.descriptor_reserve.paused)
    }
}

fn open_reserve() -> Option<File> {
    File::open("/dev/null").ok()
}
