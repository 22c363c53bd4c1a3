//! The analyzer, packet by packet.

mod files;
mod packets;
mod pairs;
mod streams;
mod wire;
mod writing;
