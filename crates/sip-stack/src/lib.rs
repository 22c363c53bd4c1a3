//! A SIP stack for your own programs: parsing, transports (RFC 3261 section 18) and transactions (section 17) in one
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
//! [`Setup::start`] runs the loop in a thread of its own. [`Setup::drive`] runs it inside your program's own loop. Either way
//! only the loop calls your [`User`], one call at a time: it needs no lock and must not block. Other threads send requests and
//! responses through a [`Handle`], which wakes the loop.
//!
//! The stack does not handle dialogs, authentication and routing. Implement them yourself, or use `sip-elements`.

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
