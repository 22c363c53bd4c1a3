//! The push channel: events of calls for the readers of `GET /events`.
//!
//! Events wait in one ring that all readers share. A reader has a position in it and takes events as fast as its connection carries them.
//! An event is encoded when the first reader takes it, and never again. A reader whose position left the ring is disconnected. After
//! a minute without readers, the ring is emptied, and workers drop events until a reader connects.

mod filter;
mod frame;
mod hub;
mod reader;
mod ring;

pub use filter::Filter;
pub use frame::{EventId, Goodbye, InvalidEventId};
pub use hub::{EventCounters, Hub, Refused};
pub use reader::Reader;
