//! The table of call records.

use super::node_lock::begin_as;
use super::{PostgresBackend, fault};
use crate::backend::{Fault, RecordTable};
use crate::call_row::CallRow;
use crate::network::{Fence, WHOLE_TABLE_TIMEOUT, within, within_time};
use crate::node_name::NodeName;
use crate::sql::{RECORDS_PER_STATEMENT, record_insertion};
use async_trait::async_trait;
use sqlx::{PgConnection, Postgres};

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
    for records in records.chunks(RECORDS_PER_STATEMENT) {
        let mut insert = record_insertion::<Postgres>(records, node);
        insert.push(" ON CONFLICT (id) DO NOTHING");
        insert.build().execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
