//! A SIP stack for your own programs: calls and registrations of a user agent, transactions (RFC 3261 section 17) and transports
//! (section 18), in one single-threaded loop.
//!
//! Make a call:
//!
//! ```
//! use sip_stack::Agent;
//! # use std::time::Duration;
//!
//! # let bob = Agent::builder("sip:bob@example.org").bind("udp:127.0.0.1:0").start()?;
//! # let uri = format!("sip:bob@{}", bob.listeners()[0].address);
//! # let callee = std::thread::spawn(move || {
//! #     let call = bob.incoming(Duration::from_secs(10)).expect("a call").accept("v=0\r\n");
//! #     call.map(|call| call.ended())
//! # });
//! let alice = Agent::builder("sip:alice@example.org")
//!     .credentials("alice", "secret")
//!     .bind("udp:127.0.0.1:0")
//!     .start()?;
//! # let bob = &*uri;
//! let call = alice.invite(bob).session("v=0\r\n").send()?;
//! let answer = call.answered()?;
//! assert_eq!(answer.body(), b"v=0\r\n");
//! call.hang_up()?;
//! # callee.join().expect("no panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There are three levels. Choose the highest one that fits:
//!
//! | level | you get | you write |
//! | --- | --- | --- |
//! | [`Agent`] | calls as values, with methods that wait | straight code in your own threads |
//! | [`UserAgent`] | dialogs, credentials, registrations, lookups | a [`CallHandler`] that the loop calls |
//! | [`Stack`] | transactions and transports | a [`User`] that the loop calls: a proxy, a gateway, a user agent with other rules |
//!
//! On the lower two levels, [`Setup::start`] runs the loop in a thread of its own, and [`Setup::drive`] runs it inside your program's own
//! loop. Either way only the loop calls your code, one call at a time: it needs no lock and must not block. Other threads reach it through a
//! [`Handle`], which wakes the loop.
//!
//! ```no_run
//! use sip_stack::{Request, Setup, Stack, User};
//!
//! struct Greeter;
//!
//! impl User for Greeter {
//!     fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
//!         stack.respond(request, 200, "Hello");
//!     }
//! }
//!
//! let running = Setup::new().udp("127.0.0.1:5060")?.tcp("127.0.0.1:5060")?.start(Greeter)?;
//! // From any thread, at any time:
//! running.handle().post(|_greeter, stack| println!("{:?}", stack.statistics()))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All tables and queues are bounded ([`Bounds`]): a program that takes no events holds no more memory. While transactions keep
//! more than 512 MiB of messages, requests are answered 503.
//!
//! The feature `resolver` (default) resolves names (RFC 3263) in a thread with a tokio runtime. Without it, bring your own [`Resolve`], or
//! use addresses. Nothing else here knows tokio.
//!
//! Deliberately absent: media, session timers (RFC 4028), reliable provisional responses (RFC 3262), subscriptions (RFC 6665).

#![forbid(unsafe_code)]

mod agent;
mod calls;
mod handle;
mod node;
#[cfg(feature = "resolver")]
mod resolver;
mod setup;
mod stack;
mod user;

pub use agent::{Agent, AgentError, Builder, Call, CallError, Dial, IncomingCall, Registration};
pub use calls::{
    AgentSettings, BadSettings, Bounds, CallControl, CallEnd, CallEvent, CallHandler, CallNumber,
    Invitation, Lookup, NotSent, ReceivedMessage, RegistrationEvent, Resolve, Session, UserAgent,
};
pub use handle::{Handle, NotPosted};
#[cfg(feature = "resolver")]
pub use resolver::SystemResolver;
pub use setup::{Driver, Running, Setup, SetupError};
pub use sip_message::{
    CSeq, Header, HeaderName, Host, Malformed, Message, Method, NameAddr, Params, ParseError,
    RequestWriter, ResponseWriter, Scheme, Uri, Via,
};
#[cfg(feature = "resolver")]
pub use sip_resolver::Settings as ResolverSettings;
pub use sip_runtime::{BindError, Clock, EventLoopKind, Options, StreamOptions, tls};
pub use sip_transaction::{ClientId, Full, ServerId, Stats, TimerId, TimerSettings};
pub use sip_transport::selection::{Candidate, Destination, Reach};
pub use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Protocol, Time};
pub use stack::{NextHop, Stack};
pub use user::{Failure, Request, User};
