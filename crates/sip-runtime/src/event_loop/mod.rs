//! How a worker waits until one of its descriptors is ready.

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

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Interest {
    pub(crate) const READABLE: Self = Self {
        readable: true,
        writable: false,
    };
}

/// A descriptor that is ready. Errors and hang-ups count as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
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

    /// Watches `descriptor` until it is forgotten; `token` names it in [`EventLoop::wait`].
    pub(crate) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.watch(descriptor, token, interest),
            Self::Poll(poll) => {
                poll.watch(descriptor, token, interest);
                Ok(())
            }
        }
    }

    /// Waits for something else from now on.
    pub(crate) fn change(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.change(descriptor, token, interest),
            Self::Poll(poll) => {
                poll.change(token, interest);
                Ok(())
            }
        }
    }

    /// Forgets a descriptor, before it is closed: nothing of it appears under its token any more.
    pub(crate) fn forget(&mut self, descriptor: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.forget(descriptor),
            Self::Poll(poll) => {
                poll.forget(token);
                Ok(())
            }
        }
    }

    /// Waits until a descriptor is ready or `timeout` (rounded up to whole milliseconds) has
    /// passed, and names the ready ones. May return early with none, when a signal came.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout, ready),
            Self::Poll(poll) => poll.wait(timeout, ready),
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

    fn readable(token: usize) -> Ready {
        Ready {
            token,
            readable: true,
            writable: false,
        }
    }

    #[test]
    fn interest_can_be_changed_and_given_up() {
        check_all_kinds(|mut event_loop| {
            let idle = Duration::from_millis(1);
            let (one, other) = std::os::unix::net::UnixStream::pair().expect("pair");
            let named = |event_loop: &mut EventLoop| {
                let mut named = Vec::new();
                event_loop
                    .wait(Some(idle), |ready| named.push(ready))
                    .expect("wait");
                named
            };
            event_loop
                .watch(one.as_fd(), 5, Interest::READABLE)
                .expect("watch");
            assert_eq!(named(&mut event_loop), []);
            let both = Interest {
                readable: true,
                writable: true,
            };
            event_loop.change(one.as_fd(), 5, both).expect("change");
            let writable = Ready {
                token: 5,
                readable: false,
                writable: true,
            };
            assert_eq!(named(&mut event_loop), [writable]);
            rustix::io::write(&other, b"x").expect("write");
            let ready = Ready {
                readable: true,
                ..writable
            };
            assert_eq!(named(&mut event_loop), [ready]);
            let neither = Interest {
                readable: false,
                writable: false,
            };
            event_loop.change(one.as_fd(), 5, neither).expect("change");
            assert_eq!(named(&mut event_loop), []);
            event_loop.change(one.as_fd(), 5, both).expect("change");
            event_loop.forget(one.as_fd(), 5).expect("forget");
            assert_eq!(named(&mut event_loop), []);
        });
    }

    #[test]
    fn a_token_can_be_used_again() {
        check_all_kinds(|mut event_loop| {
            for _ in 0..3 {
                let event = eventfd(1, EventfdFlags::NONBLOCK).expect("eventfd");
                event_loop
                    .watch(event.as_fd(), 9, Interest::READABLE)
                    .expect("watch");
                let mut named = Vec::new();
                event_loop
                    .wait(None, |ready| named.push(ready))
                    .expect("wait");
                assert_eq!(named, [readable(9)]);
                event_loop.forget(event.as_fd(), 9).expect("forget");
            }
        });
    }

    #[test]
    fn names_only_the_readable_descriptors_and_again_until_they_are_drained() {
        check_all_kinds(|mut event_loop| {
            let quiet = eventfd(0, EventfdFlags::NONBLOCK).expect("eventfd");
            let ready = eventfd(1, EventfdFlags::NONBLOCK).expect("eventfd");
            for (descriptor, token) in [(&quiet, 3), (&ready, 7)] {
                event_loop
                    .watch(descriptor.as_fd(), token, Interest::READABLE)
                    .expect("watch");
            }
            for _ in 0..2 {
                let mut named = Vec::new();
                event_loop
                    .wait(None, |ready| named.push(ready))
                    .expect("wait");
                assert_eq!(named, [readable(7)]);
            }
            rustix::io::read(&ready, &mut [0; 8]).expect("drain");
            event_loop
                .wait(Some(Duration::ZERO), |ready| {
                    panic!("{ready:?} is not readable")
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
                .wait(Some(timeout), |ready| {
                    panic!("nothing is watched, not even {ready:?}")
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
