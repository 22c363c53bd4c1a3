//! The simulator.
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
pub use host::{AnswerOf, ControlManners, Machine, QuestionOf};
pub use network::{Fate, Network, Weather};
pub use observe::{
    Account, BoundContact, Bounds, Cause, Census, Facts, HostFacts, Invariant, Observation, Party,
    PhoneFacts, Round, Seen, Violation,
};
pub use phone::{Action, Answering, CallPlan, Mischief, Phone, PhoneEvent, PhoneOutput, Profile};
pub use plan::{HostPlan, PhonePlan, Plan, host_address, phone_address};
pub use run::{Outcome, build, calm, simulate};
pub use statistics::Statistics;
pub use trace::Trace;
pub use world::{Fault, World};
