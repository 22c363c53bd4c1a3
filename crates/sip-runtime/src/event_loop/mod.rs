//! How a worker waits until one of its descriptors is readable.

mod epoll;
mod poll;

use epoll::Epoll;
use poll::Poll;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Which system call a worker waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLoopKind {
    /// The best for this machine.
    #[default]
    Auto,
    /// epoll(7): the cost of a wait does not grow with the number of descriptors.
    Epoll,
    /// poll(2): where epoll is not to be had.
    Poll,
}

/// An event loop: level-triggered, so that nothing is lost when a descriptor is not drained.
pub(crate) enum EventLoop {
    Epoll(Epoll),
    Poll(Poll),
}

impl EventLoop {
    pub(crate) fn open(kind: EventLoopKind) -> io::Result<Self> {
        match kind {
            EventLoopKind::Auto | EventLoopKind::Epoll => Epoll::open().map(Self::Epoll),
            EventLoopKind::Poll => Ok(Self::Poll(Poll::default())),
        }
    }

    /// Watches `descriptor` for as long as it is open; `token` names it in [`EventLoop::wait`].
    pub(crate) fn watch(&mut self, descriptor: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.watch(descriptor, token),
            Self::Poll(poll) => {
                poll.watch(descriptor, token);
                Ok(())
            }
        }
    }

    /// Waits until a descriptor is readable or `timeout` (rounded up to whole milliseconds) has
    /// passed, and names the readable ones. May return early with none, when a signal came.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        readable: impl FnMut(usize),
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout, readable),
            Self::Poll(poll) => poll.wait(timeout, readable),
        }
    }
}

/// A timeout in milliseconds as poll(2) wants it: rounded up, so that no timer runs early.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        let milliseconds = timeout
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(u64::from(timeout.subsec_nanos().div_ceil(1_000_000)));
        i32::try_from(milliseconds).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;
    use std::time::Instant;

    fn check_all_kinds(check: impl Fn(EventLoop)) {
        for kind in [
            EventLoopKind::Auto,
            EventLoopKind::Epoll,
            EventLoopKind::Poll,
        ] {
            check(EventLoop::open(kind).expect("event loop"));
        }
    }

    #[test]
    fn names_only_the_readable_descriptors_and_again_until_they_are_drained() {
        check_all_kinds(|mut event_loop| {
            let quiet = eventfd(0, EventfdFlags::NONBLOCK).expect("eventfd");
            let ready = eventfd(1, EventfdFlags::NONBLOCK).expect("eventfd");
            event_loop.watch(quiet.as_fd(), 3).expect("watch");
            event_loop.watch(ready.as_fd(), 7).expect("watch");
            for _ in 0..2 {
                let mut named = Vec::new();
                event_loop
                    .wait(None, |token| named.push(token))
                    .expect("wait");
                assert_eq!(named, [7]);
            }
            rustix::io::read(&ready, &mut [0; 8]).expect("drain");
            event_loop
                .wait(Some(Duration::ZERO), |token| {
                    panic!("{token} is not readable")
                })
                .expect("wait");
        });
    }

    #[test]
    fn a_timeout_is_never_early() {
        check_all_kinds(|mut event_loop| {
            let timeout = Duration::from_micros(2_300);
            let start = Instant::now();
            event_loop
                .wait(Some(timeout), |token| {
                    panic!("nothing is watched, not even {token}")
                })
                .expect("wait");
            assert!(start.elapsed() >= timeout);
        });
    }

    #[test]
    fn timeouts_round_up_and_saturate() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::from_millis(5))), 5);
        assert_eq!(milliseconds(Some(Duration::MAX)), i32::MAX);
    }
}
