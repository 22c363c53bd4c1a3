//! The statement that adds records, as far as it is the same in each database.

use crate::call_row::CallRow;
use crate::node_name::NodeName;
use sqlx::{Database, Encode, QueryBuilder, Type};

/// Records written per statement. One statement with many rows costs less than many statements.
pub(crate) const RECORDS_PER_STATEMENT: usize = 100;

/// The columns, in the order of [`record_insertion`].
const COLUMNS: &str = "id, node, call_id, from_uri, from_tag, to_uri, to_tag, request_uri, identity, \
    source, source_transport, destination, destination_transport, attempts, \
    started, ringing, answered, ended, status, ended_by, reason";

/// The statement without its end, which says what happens if a record is there already.
pub(crate) fn record_insertion<DB>(records: &[CallRow<'_>], node: &NodeName) -> QueryBuilder<DB>
where
    DB: Database,
    for<'v> &'v str: Encode<'v, DB> + Type<DB>,
    for<'v> Option<&'v str>: Encode<'v, DB>,
    for<'v> i32: Encode<'v, DB> + Type<DB>,
    for<'v> i64: Encode<'v, DB> + Type<DB>,
    for<'v> Option<i64>: Encode<'v, DB>,
{
    let mut insert = QueryBuilder::new(format!("INSERT INTO call_record ({COLUMNS}) "));
    insert.push_values(records, |mut row, call| {
        let destination = call.destination.map(|(address, _)| address.to_string());
        row.push_bind(&*call.id)
            .push_bind(node.as_str())
            .push_bind(&*call.call_id)
            .push_bind(&*call.from_uri)
            .push_bind(&*call.from_tag)
            .push_bind(&*call.to_uri)
            .push_bind(&*call.to_tag)
            .push_bind(&*call.request_uri)
            .push_bind(&*call.identity)
            .push_bind(&*call.source.0.to_string())
            .push_bind(call.source.1)
            .push_bind(destination.as_deref())
            .push_bind(call.destination.map(|(_, transport)| transport))
            .push_bind(i32::from(call.attempts))
            .push_bind(call.started)
            .push_bind(call.ringing)
            .push_bind(call.answered)
            .push_bind(call.ended)
            .push_bind(i32::from(call.status))
            .push_bind(&*call.ended_by)
            .push_bind(&*call.reason);
    });
    insert
}
