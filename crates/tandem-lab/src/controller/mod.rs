//! The controller.
pub mod protocol;
