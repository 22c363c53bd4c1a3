//! A deterministic simulator: machines and scripted phones in one thread, under virtual time, over a network that
//! loses, duplicates, reorders and delays datagrams. One seed decides everything; hours pass in a second.
//!
//! ```text
//!          script ──▶ phones ◀──── network ────▶ machines ◀── faults
//!                        │      (loses, delays)      │  (each: workers, queues, control plane, disk)
//!                        └────── observations ───────┘
//!                                     │
//!                        invariants ──┴── trace ──▶ ladder of a failing seed, fingerprint
//! ```
//!
//! * A [`Machine`] defines how a machine under test starts, what its disk keeps after a crash, and how its control
//!   plane answers. The simulator drives its nodes only through [`sip_transport::Node`] and does not know what a proxy
//!   is.
//! * A [`Phone`] is a user agent of the simulator. It registers with digest, refreshes, calls, answers, cancels,
//!   retransmits by the RFC's timers, vanishes, and misbehaves on request.
//! * An [`Invariant`] sees every [`Observation`] and reports when its rule is violated. [`invariants`] has one file for
//!   each.
//! * A [`Plan`] contains all decisions of a seed; [`simulate`] runs it. [`calm`] builds a small world for a
//!   hand-written script.
//!
//! ```no_run
//! # fn demo<M: sip_simulator::Machine>(machine: impl FnMut(&sip_simulator::HostPlan) -> M) {
//! use sip_simulator::{Action, CallPlan, calm};
//! use std::time::Duration;
//!
//! let mut world = calm(1, 1, 2, 2, machine); // seed 1: one machine with two workers, two phones
//! for phone in 0..2 {
//!     world.perform(phone, Action::Register);
//! }
//! world.run_for(Duration::from_secs(1));
//! world.perform(0, Action::Call(CallPlan {
//!     to: "sip:user1@host0.test".to_owned(),
//!     patience: Duration::from_secs(30),
//!     talk: Duration::from_secs(10),
//!     renegotiates: false,
//! }));
//! world.run_until_quiet();
//! world.expect_sound();
//! assert_eq!(world.statistics().answered, 1);
//! # }
//! ```
//!
//! Nothing here reads a clock, uses another source of randomness or iterates over a table in random order. The same
//! seed therefore gives the same events, byte for byte. How to run, replay and extend it: `docs/simulator.md`.

mod clock;
mod dice;
mod host;
pub mod invariants;
mod network;
mod observe;
mod phone;
mod plan;
mod run;
mod statistics;
mod trace;
mod traffic;
mod world;

pub use dice::{Dice, Fingerprint};
pub use host::{ControlManners, ControlOf, Machine, QuestionOf, RecordOf};
pub use network::{Fate, Network, Weather};
pub use observe::{
    Account, BoundContact, Bounds, Cause, Census, Facts, Held, HostFacts, Invariant, Observation,
    Party, PhoneFacts, Places, SavedDialog, Seen, Step, Violation,
};
pub use phone::{
    Action, Answering, CallPlan, Mischief, Phone, PhoneEvent, PhoneOutput, Profile, SessionHabit,
};
pub use plan::{HostPlan, PhonePlan, Plan, host_address, phone_address};
pub use run::{Outcome, build, calm, simulate};
pub use statistics::Statistics;
pub use trace::Trace;
pub use world::{Fault, World};
