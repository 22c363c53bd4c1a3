//! The table of call records.

use super::node_lock::begin_as;
use super::{PostgresBackend, fault};
use crate::backend::{Fault, RecordTable};
use crate::call_row::CallRow;
use crate::network::{Fence, WHOLE_TABLE_TIMEOUT, within, within_time};
use crate::node_name::NodeName;
use async_trait::async_trait;
use sqlx::{PgConnection, Postgres, QueryBuilder};

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 100;

#[async_trait]
impl RecordTable for PostgresBackend {
    async fn append(&self, records: &[CallRow<'_>], node: &NodeName) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let inserted = within(insert(&mut lease, records, node, self.claims.fence())).await;
        lease.end(inserted).map_err(fault)
    }

    async fn count_records(&self) -> Result<u64, Fault> {
        let query = sqlx::query_scalar("SELECT COUNT(*) FROM call_record");
        let mut lease = self.lease().await?;
        let count = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        lease.end(count).map(i64::cast_unsigned).map_err(fault)
    }

    async fn delete_records(&self, node: &NodeName, before: i64, most: u32) -> Result<u64, Fault> {
        let query = sqlx::query(
            "DELETE FROM call_record WHERE id IN \
             (SELECT id FROM call_record WHERE ended < $1 AND node = $2 ORDER BY ended LIMIT $3)",
        )
        .bind(before)
        .bind(node.as_str())
        .bind(i64::from(most));
        self.delete_as(node, query).await
    }
}

async fn insert(
    connection: &mut PgConnection,
    records: &[CallRow<'_>],
    node: &NodeName,
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let mut transaction = begin_as(connection, node, fence).await?;
    for records in records.chunks(ROWS_PER_STATEMENT) {
        let mut insert = QueryBuilder::<Postgres>::new(
            "INSERT INTO call_record \
             (id, node, call_id, from_uri, from_tag, to_uri, to_tag, request_uri, identity, source, source_transport, \
             destination, destination_transport, attempts, started, ringing, answered, ended, status, ended_by, reason) ",
        );
        insert.push_values(records, |mut row, call| {
            row.push_bind(&*call.id)
                .push_bind(node.as_str())
                .push_bind(&*call.call_id)
                .push_bind(&*call.from_uri)
                .push_bind(&*call.from_tag)
                .push_bind(&*call.to_uri)
                .push_bind(&*call.to_tag)
                .push_bind(&*call.request_uri)
                .push_bind(&*call.identity)
                .push_bind(call.source.0.to_string())
                .push_bind(call.source.1)
                .push_bind(call.destination.map(|(address, _)| address.to_string()))
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
        insert.push(" ON CONFLICT (id) DO NOTHING");
        insert.build().execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
