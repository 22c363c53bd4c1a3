//! Tests of the registrar from a phone's point of view: REGISTER in, response and bindings out.

mod model;
mod rules;
mod server;
