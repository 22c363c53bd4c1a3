//! The nodes of a fleet, as the controller and the edges describe them.

pub mod members;
