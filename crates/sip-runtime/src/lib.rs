//! The Linux runtime: the only crate with sockets, threads and a clock. It drives any
//! [`Node`](sip_transport::Node).
//!
//! ```text
//!              ┌──────────────── worker thread (one per core) ────────────────┐
//!  sockets ───▶│ recvmmsg → Node::receive ─┐                                  │
//!  inbox ─────▶│ Node::answer,             ├─▶ Output ─▶ sendmmsg ────────────┼──▶ sockets
//!  (eventfd)   │ Node::receive_handed_over │          ├▶ hand-overs ──────────┼──▶ other workers
//!  deadlines ─▶│ Node::expire ─────────────┘          └▶ questions ───────────┼──▶ QuestionSink
//!              └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! A program starts in two steps, so that its caches can be warm before the first datagram is
//! accepted: [`Runtime::bind`] opens every socket of every worker (from then on the kernel queues
//! datagrams), [`Bound::start`] builds one node per worker and lets the threads read.
//!
//! A program with a loop of its own takes [`Bound::drive`] instead: one worker without a thread, that does what there is to do
//! when it is told to.
//!
//! What this crate never does: look into a message, block a worker on anything but its own event
//! loop, or allocate per message.

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
pub use running::{Handle, QuestionSink, Running, SendError};
pub use stats::{Counter, WorkerStats};
pub use stream::{
    Admission, Aliases, CloseReason, PeerPolicy, RefuseReason, SharedPeerPolicy, StreamOptions,
    UNPROVEN_LIVES,
};
pub use udp::IcmpError;
