//! The rules that hold in every world, one file for each.
mod answered;
mod answered_once;
mod bounded;
mod conservation;
mod described;
mod dialogs;
mod every_transaction_ends;
mod held_bytes;
mod location_agrees;
mod never_lost;
mod no_foreign_identity;
mod no_open_relay;
mod nodes_agree;
mod one_call;
mod places;
mod reasons;
mod records;
mod relayed;
mod responses_return;
mod restored;
mod rings_once;
mod sessions;

pub use answered::Answered;
pub use answered_once::AnsweredOnce;
pub use bounded::Bounded;
pub use conservation::Conservation;
pub use described::Described;
pub use dialogs::Dialogs;
pub use every_transaction_ends::EveryTransactionEnds;
pub use held_bytes::HeldBytes;
pub use location_agrees::LocationAgrees;
pub use never_lost::NeverLost;
pub use no_foreign_identity::NoForeignIdentity;
pub use no_open_relay::NoOpenRelay;
pub use nodes_agree::NodesAgree;
pub use one_call::OneCall;
pub use places::PlacesOfCalls;
pub use reasons::Reasons;
pub use records::Records;
pub use relayed::Relayed;
pub use responses_return::ResponsesReturn;
pub use restored::Restored;
pub use rings_once::RingsOnce;
pub use sessions::Sessions;

use crate::observe::Invariant;

/// The invariants of a world whose machine is one of a fleet: whenever it fails, another one with the same secret and the same bindings takes its
/// place, without its transactions. There is one phone for each subscriber, and none gives up a call that it places.
pub fn of_a_fleet() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<AnsweredOnce>::default(),
        Box::<Bounded>::default(),
        Box::<Conservation>::default(),
        Box::<HeldBytes>::default(),
        Box::<NoForeignIdentity>::default(),
        Box::<NoOpenRelay>::default(),
        Box::<RingsOnce>::default(),
    ]
}

/// The invariants of a whole fleet: edges, nodes, and a store. There is one phone for each subscriber, and none vanishes.
pub fn of_a_whole_fleet() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<AnsweredOnce>::default(),
        Box::<Bounded>::default(),
        Box::<Conservation>::default(),
        Box::<EveryTransactionEnds>::default(),
        Box::<HeldBytes>::default(),
        Box::<NeverLost>::default(),
        Box::<NoForeignIdentity>::default(),
        Box::<NodesAgree>::default(),
        Box::<RingsOnce>::default(),
    ]
}

/// All invariants that hold in every world.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<Answered>::default(),
        Box::<Bounded>::default(),
        Box::<Conservation>::default(),
        Box::<Described>::default(),
        Box::<Dialogs>::default(),
        Box::<EveryTransactionEnds>::default(),
        Box::<HeldBytes>::default(),
        Box::<LocationAgrees>::default(),
        Box::<NoForeignIdentity>::default(),
        Box::<NoOpenRelay>::default(),
        Box::<OneCall>::default(),
        Box::<PlacesOfCalls>::default(),
        Box::<Reasons>::default(),
        Box::<Records>::default(),
        Box::<Relayed>::default(),
        Box::<ResponsesReturn>::default(),
        Box::<Restored>::default(),
        Box::<Sessions>::default(),
    ]
}
