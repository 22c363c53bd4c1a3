//! The registrar as a phone sees it: REGISTER in, response and bindings out.

mod model;
mod rules;
mod server;
