//! A SIP stack for programs of your own: parsing, transports (RFC 3261 section 18) and transactions (section 17) in one
//! single-threaded loop.
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
//! [`Setup::start`] gives the loop a thread of its own; [`Setup::drive`] lets a program with a loop of its own turn it. Either way
//! the program's [`User`] is called by the loop alone, one call after the other: it needs no lock and must not block. Other
//! threads send requests and responses through a [`Handle`], which wakes the loop.
//!
//! What it does not do: dialogs, authentication, routing. Those are the program's, or `sip-elements`'.

mod handle;
mod node;
mod setup;
mod stack;
mod user;

pub use handle::{Handle, NotPosted};
pub use setup::{Driver, Running, Setup, SetupError};
pub use sip_message::{HeaderName, Message, Method, RequestWriter, ResponseWriter};
pub use sip_transaction::{ClientId, Full, ServerId, Stats};
pub use sip_transport::{Flow, Listener, ListenerId, Protocol};
pub use stack::Stack;
pub use user::{Failure, Request, User};
