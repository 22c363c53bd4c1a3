//! Each recipe of `deploy/routing`, and the configuration of `deploy/carrier-edge`, run with real calls.
#[path = "../common/mod.rs"]
mod common;
#[expect(dead_code, reason = "the server runs until the end")]
#[path = "../../../tandem-store/tests/servers/postgres.rs"]
mod postgres;
#[path = "../../../tandem-store/tests/servers/process.rs"]
mod process;
mod setup;

mod blocking;
mod carrier_edge;
mod customer_limits;
mod emergency;
mod itsp;
mod pbx;
mod portability;
mod pstn;
mod test_line;
mod trunk;
mod wholesale;
