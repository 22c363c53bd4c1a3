//! The Linux runtime: the only crate with sockets, threads and a clock. It drives any
//! [`Node`](sip_transport::Node).
//!
//! ```text
//!              ┌──────────────── worker thread (one per core) ────────────────┐
//!  sockets ───▶│ recvmmsg → Node::handle ──┐                                  │
//!  inbox ─────▶│ hand-overs, answers       ├─▶ Output ─▶ sendmmsg ────────────┼──▶ sockets
//!  (eventfd)   │          → Node::handle ──┤          ├▶ hand-overs ──────────┼──▶ other workers
//!  deadlines ─▶│ Node::expire ─────────────┘          └▶ questions, records ──┼──▶ ControlPlane
//!              └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! A program starts in two steps. [`Runtime::bind`] opens every socket of every worker; from then on the kernel queues datagrams.
//! [`Bound::start`] builds one node per worker and starts the threads that read. Between the two, a program can warm its caches.
//!
//! A program with its own event loop calls [`Bound::drive`] instead. It gets one worker without a thread and runs it step by step.
//!
//! This crate never parses a message, never blocks a worker on anything but its event loop, and never allocates per message.

mod bind;
mod clock;
mod descriptors;
mod driver;
mod event_loop;
mod inbox;
mod interfaces;
mod options;
mod running;
mod stats;
mod stream;
pub mod tls;
mod udp;
mod worker;

pub use bind::{BindError, Bound, Runtime};
pub use clock::Clock;
pub use descriptors::raise_descriptor_limit;
pub use driver::Driver;
pub use event_loop::EventLoopKind;
pub use interfaces::expand_wildcard;
pub use options::Options;
pub use running::{ControlPlane, Handle, Running, SendError};
pub use stats::WorkerStats;
pub use stream::{
    Admission, Aliases, CloseReason, PeerPolicy, RefuseReason, SharedPeerPolicy, StreamOptions,
    UNPROVEN_LIFETIME_FACTOR,
};
pub use udp::IcmpError;
