//! The records of calls in the database of a fleet.

use crate::members::Fleet;
use interop::{PATIENCE, eventually};
use sqlx::{Connection as _, PgConnection};

/// The records of answered calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// All of them.
    pub written: i64,
    /// The calls that have one: different Call-IDs and tags.
    pub calls: i64,
    /// Those of calls that a party hung up.
    pub hung_up: i64,
}

impl Records {
    /// Reads them.
    fn read(fleet: &Fleet) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let connected = PgConnection::connect(&fleet.database()).await;
            let mut connection = connected.expect("connects");
            let query = "SELECT COUNT(*) AS written, COUNT(DISTINCT (call_id, from_tag, to_tag)) AS calls, \
                         COUNT(*) FILTER (WHERE ended_by IN ('caller', 'callee')) AS hung_up \
                         FROM call_record WHERE answered IS NOT NULL";
            let found = sqlx::query_as(query).fetch_one(&mut connection).await;
            let (written, calls, hung_up) = found.expect("the records");
            Self {
                written,
                calls,
                hung_up,
            }
        })
    }

    /// Waits until there are as many records as calls, or no more come. Returns them.
    pub fn of(fleet: &Fleet, calls: u64) -> Self {
        let mut records = Self::read(fleet);
        let calls = i64::try_from(calls).expect("few");
        // The last ones are written soon after their calls.
        eventually(PATIENCE / 6, || {
            records = Self::read(fleet);
            records.written >= calls
        });
        records
    }

    /// Each of so many calls has one record, and a party hung it up.
    pub fn are_of_exactly(self, calls: u64) {
        let calls = i64::try_from(calls).expect("few");
        let expected = Self {
            written: calls,
            calls,
            hung_up: calls,
        };
        assert_eq!(self, expected);
    }
}
