//! Routing rules: what matches, what is reported, what reloads keep.

mod header_edits;
mod hostile;
mod matching;
mod mistakes;
mod numbers;
mod properties;
mod reloads;
mod requests;
