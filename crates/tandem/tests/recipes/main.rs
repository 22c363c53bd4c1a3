//! Each recipe of `deploy/routing`, run with real calls.
#[path = "../common/mod.rs"]
mod common;
mod setup;

mod blocking;
mod customer_limits;
mod emergency;
mod itsp;
mod pbx;
mod portability;
mod pstn;
mod test_line;
mod trunk;
mod wholesale;
