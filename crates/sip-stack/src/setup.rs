//! Configures and starts a stack.

use crate::User;
use crate::handle::{Command, Handle};
use crate::node::StackNode;
use sip_runtime::{BindError, Bound, EventLoopKind, Options, Runtime, expand_wildcard};
use sip_transaction::TimerSettings;
use sip_transport::{Listener, Protocol};
use std::convert::Infallible;
use std::net::{AddrParseError, SocketAddr};
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::{fmt, io};

/// The type of a question handler. The node never asks a question.
type NoQuestions = fn(u16, Infallible) -> Result<(), Infallible>;

/// The listeners and options of a stack. Port 0 lets the kernel choose.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    listeners: Vec<Listener>,
    options: Options,
    timers: TimerSettings,
}

impl Setup {
    /// Creates a setup without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a UDP listener at an address.
    ///
    /// # Errors
    /// Fails if `address` is not an IP address with a port.
    pub fn udp(self, address: &str) -> Result<Self, AddrParseError> {
        Ok(self.listen(Protocol::Udp, address.parse()?))
    }

    /// Adds a TCP listener at an address. The stack also opens connections from there.
    ///
    /// # Errors
    /// Fails if `address` is not an IP address with a port.
    pub fn tcp(self, address: &str) -> Result<Self, AddrParseError> {
        Ok(self.listen(Protocol::Tcp, address.parse()?))
    }

    /// Adds a listener. A wildcard address becomes one listener for each address of the machine.
    #[must_use]
    pub fn listen(mut self, protocol: Protocol, address: SocketAddr) -> Self {
        self.listeners.push(Listener {
            protocol,
            address,
            prefix_length: if address.is_ipv4() { 32 } else { 128 },
            advertised: String::new(),
            behind_balancer: false,
        });
        self
    }

    /// Selects the event loop.
    #[must_use]
    pub const fn event_loop(mut self, kind: EventLoopKind) -> Self {
        self.options.event_loop = kind;
        self
    }

    /// Sets T1, T2 and T4.
    #[must_use]
    pub const fn timers(mut self, timers: TimerSettings) -> Self {
        self.timers = timers;
        self
    }

    /// Changes other options: buffers, TLS, limits of connections.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Starts the stack in a thread of its own.
    ///
    /// # Errors
    /// Fails if an address cannot be bound, or if the machine has no threads or descriptors left.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the runtime asks for as many nodes as it was given workers: one"
    )]
    pub fn start<U: User>(self, user: U) -> Result<Running<U>, SetupError> {
        let (bound, node) = self.bind(user)?;
        let mut node = Some(node);
        let next = |_| node.take().expect("one worker");
        let running = bound.start(next, &(NO_QUESTIONS as NoQuestions))?;
        Ok(Running(running))
    }

    /// Makes the stack part of your program's own loop. The loop waits for the stack's descriptor and calls [`Driver::turn`].
    ///
    /// # Errors
    /// Fails if an address cannot be bound, or if the event loop has no descriptor to wait for. Only epoll has one.
    pub fn drive<U: User>(self, user: U) -> Result<Driver<U>, SetupError> {
        let (bound, node) = self.bind(user)?;
        Ok(Driver(bound.drive(node, NO_QUESTIONS as NoQuestions)?))
    }

    fn bind<U: User>(self, user: U) -> Result<(Bound, StackNode<U>), SetupError> {
        let clock = self.options.clock;
        let mut listeners = Vec::new();
        for listener in &self.listeners {
            listeners.extend(expand_wildcard(listener)?);
        }
        let bound = Runtime::bind(listeners, NonZeroU16::MIN, self.options)?;
        let listeners = bound.listeners().to_vec();
        let secret = (random()?, random()?);
        let node = StackNode::new(user, listeners, self.timers, secret, clock.now());
        Ok((bound, node))
    }
}

const NO_QUESTIONS: NoQuestions = |_, question| match question {};

fn random() -> Result<u64, SetupError> {
    getrandom::u64().map_err(|error| SetupError::Machine(io::Error::other(error)))
}

/// A stack with a thread of its own. Dropping it stops the stack.
pub struct Running<U: User>(sip_runtime::Running<Command<U>>);

impl<U: User> Running<U> {
    /// A handle to the stack, for use from any thread.
    pub fn handle(&self) -> Handle<U> {
        Handle(self.0.handle())
    }

    /// The listeners, with the addresses that their sockets are bound to.
    pub fn listeners(&self) -> &[Listener] {
        self.0.listeners()
    }

    /// Stops the stack after the current round.
    pub fn stop(self) {
        self.0.stop();
    }
}

impl<U: User> fmt::Debug for Running<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A stack inside your program's own loop. See [`sip_runtime::Driver`].
pub struct Driver<U: User>(sip_runtime::Driver<StackNode<U>, NoQuestions>);

impl<U: User> Driver<U> {
    /// Does all pending work, and never waits.
    pub fn turn(&mut self) {
        self.0.turn();
    }

    /// The descriptor to wait for. Call [`Driver::turn`] when it is readable.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    /// The longest time to wait for the descriptor; `None`: no limit.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline()
    }

    /// A handle to the stack, for use from any thread.
    pub fn handle(&self) -> Handle<U> {
        Handle(self.0.handle())
    }

    /// The listeners, with the addresses that their sockets are bound to.
    pub fn listeners(&self) -> &[Listener] {
        self.0.listeners()
    }
}

impl<U: User> fmt::Debug for Driver<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Why a stack cannot be set up.
#[derive(Debug)]
pub enum SetupError {
    /// An address cannot be bound.
    Bind(BindError),
    /// The machine has no threads, descriptors or randomness left, or does not support a requested option.
    Machine(io::Error),
}

impl From<BindError> for SetupError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl From<io::Error> for SetupError {
    fn from(error: io::Error) -> Self {
        Self::Machine(error)
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(formatter),
            Self::Machine(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for SetupError {}
