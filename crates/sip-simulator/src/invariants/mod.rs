//! The rules that hold in every world, one file for each.
mod answered;
mod bounded;
mod conservation;
mod described;
mod dialogs;
mod every_transaction_ends;
mod held_bytes;
mod location_agrees;
mod no_foreign_identity;
mod no_open_relay;
mod one_call;
mod places;
mod reasons;
mod records;
mod relayed;
mod responses_return;
mod restored;
mod sessions;

pub use answered::Answered;
pub use bounded::Bounded;
pub use conservation::Conservation;
pub use described::Described;
pub use dialogs::Dialogs;
pub use every_transaction_ends::EveryTransactionEnds;
pub use held_bytes::HeldBytes;
pub use location_agrees::LocationAgrees;
pub use no_foreign_identity::NoForeignIdentity;
pub use no_open_relay::NoOpenRelay;
pub use one_call::OneCall;
pub use places::PlacesOfCalls;
pub use reasons::Reasons;
pub use records::Records;
pub use relayed::Relayed;
pub use responses_return::ResponsesReturn;
pub use restored::Restored;
pub use sessions::Sessions;

use crate::observe::Invariant;

/// All invariants.
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
