//! Two and more nodes in one process, which exchange bindings through a real Redis server.

mod merge;
mod nodes;
mod store;
mod trouble;
mod two_nodes;
