//! A user agent in a thread of its own, with blocking methods: one value per call, which hangs up when it is dropped.
//!
//! The thread is that of the stack. It never waits for the program: each call has one state that the thread overwrites, and the program
//! waits for changes of it. Nothing queues up, except incoming calls, whose queue is bounded.

mod builder;
mod call;
mod handler;
mod registration;
mod watched;

pub use builder::{AgentError, Builder};
pub use call::{Call, CallError, Dial, IncomingCall};
pub use registration::Registration;

use crate::calls::{CallControl, CallNumber, Invitation, ReceivedMessage, UserAgent};
use crate::{NotPosted, Running};
use call::CallState;
use handler::Handler;
use sip_transport::Listener;
use std::fmt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use watched::Watched;

/// How long the last value that is dropped waits for the responses to BYE and REGISTER.
const LEAVING: Duration = Duration::from_secs(2);
/// How long to wait before something is posted to a stack again whose queue was full.
const PAUSE: Duration = Duration::from_millis(1);

/// A user agent that makes and takes calls. Clones share it. It stops when the last clone, call and registration is dropped.
///
/// ```no_run
/// use sip_stack::Agent;
///
/// let agent = Agent::builder("sip:alice@example.org").credentials("alice", "secret").start()?;
/// let call = agent.invite("sip:bob@example.org").session("v=0\r\n…").send()?;
/// let answer = call.answered()?;
/// println!("{}", String::from_utf8_lossy(answer.body()));
/// call.hang_up()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Agent(pub(super) Arc<Inner>);

/// An incoming call that the program has not taken yet.
pub(super) struct Waiting {
    number: CallNumber,
    state: Arc<Watched<CallState>>,
    invite: ReceivedMessage,
}

pub(super) struct Inner {
    running: Running<UserAgent<Handler>>,
    incoming: Mutex<Receiver<Waiting>>,
}

impl Agent {
    /// Configures an agent for an address of record such as `sip:alice@example.org`.
    pub fn builder(address: &str) -> Builder {
        Builder::new(address)
    }

    /// Prepares a call. [`Dial::send`] makes it.
    pub fn invite(&self, uri: &str) -> Dial<'_> {
        Dial::new(self, Invitation::new(uri))
    }

    /// Registers at the registrar of the address of record, and waits for its response. The registration lasts until the value is dropped.
    ///
    /// # Errors
    /// The registrar refused or did not respond, or there is no way to it.
    pub fn register(&self) -> Result<Registration, CallError> {
        Registration::start(self)
    }

    /// Waits for an incoming call, at most for this time.
    pub fn incoming(&self, within: Duration) -> Option<IncomingCall> {
        let queue = self.0.incoming.lock();
        let queue = queue.unwrap_or_else(PoisonError::into_inner);
        let waiting = queue.recv_timeout(within).ok()?;
        Some(IncomingCall::new(self.clone(), waiting))
    }

    /// The listeners, with the addresses that their sockets are bound to.
    pub fn listeners(&self) -> &[Listener] {
        self.0.running.listeners()
    }

    /// Runs a closure in the loop of the stack. Returns false if the stack has ended.
    fn post(
        &self,
        act: impl FnOnce(&mut Handler, &mut CallControl<'_, '_>) + Clone + Send + 'static,
    ) -> bool {
        self.0.post(act)
    }
}

impl Inner {
    fn post(
        &self,
        act: impl FnOnce(&mut Handler, &mut CallControl<'_, '_>) + Clone + Send + 'static,
    ) -> bool {
        loop {
            let act = act.clone();
            let posted =
                self.running
                    .handle()
                    .post(move |agent: &mut UserAgent<Handler>, stack| {
                        agent.with(stack, act);
                    });
            match posted {
                Ok(()) => return true,
                Err(NotPosted::Ended) => return false,
                Err(NotPosted::Full) => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Inner {
    /// Ends what is left, and waits until the peers know.
    fn drop(&mut self) {
        let (idle, is_idle) = sync_channel(1);
        let posted = self.post(move |handler, calls| {
            calls.leave();
            handler.leaves(idle, calls);
        });
        if posted {
            // After a timeout, the peers find out by themselves.
            let _ = is_idle.recv_timeout(LEAVING);
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("listeners", &self.listeners())
            .finish_non_exhaustive()
    }
}
