//! The table of call records.

use super::node_lock::begin_as;
use super::{MySqlBackend, fault};
use crate::backend::{Fault, RecordTable};
use crate::call_row::CallRow;
use crate::network::{Fence, WHOLE_TABLE_TIMEOUT, within, within_time};
use crate::node_name::NodeName;
use crate::sql::{RECORDS_PER_STATEMENT, record_insertion};
use async_trait::async_trait;
use sqlx::{MySql, MySqlConnection};

#[async_trait]
impl RecordTable for MySqlBackend {
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
            "DELETE FROM call_record WHERE ended < ? AND node = ? ORDER BY ended LIMIT ?",
        )
        .bind(before)
        .bind(node.as_str().as_bytes())
        .bind(i64::from(most));
        self.delete_as(node, query).await
    }
}

async fn insert(
    connection: &mut MySqlConnection,
    records: &[CallRow<'_>],
    node: &NodeName,
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let mut transaction = begin_as(connection, node, fence).await?;
    for records in records.chunks(RECORDS_PER_STATEMENT) {
        let mut insert = record_insertion::<MySql>(records, node);
        insert.push(" ON DUPLICATE KEY UPDATE id = VALUES(id)");
        insert.build().execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
