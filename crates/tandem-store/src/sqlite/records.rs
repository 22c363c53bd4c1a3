//! The table of call records.

use super::{SqliteBackend, fault};
use crate::backend::{Fault, RecordTable};
use crate::call_row::CallRow;
use crate::node_name::NodeName;
use crate::sql::{RECORDS_PER_STATEMENT, record_insertion};
use async_trait::async_trait;
use sqlx::Sqlite;

#[async_trait]
impl RecordTable for SqliteBackend {
    async fn append(&self, records: &[CallRow<'_>], node: &NodeName) -> Result<(), Fault> {
        self.insert_records(records, node).await.map_err(fault)
    }

    async fn count_records(&self) -> Result<u64, Fault> {
        let count: Result<i64, _> = sqlx::query_scalar("SELECT COUNT(*) FROM call_record")
            .fetch_one(&self.pool)
            .await;
        count.map(i64::cast_unsigned).map_err(fault)
    }

    async fn delete_records(&self, node: &NodeName, before: i64, most: u32) -> Result<u64, Fault> {
        let deleted = sqlx::query(
            "DELETE FROM call_record WHERE id IN \
             (SELECT id FROM call_record WHERE ended < $1 AND node = $2 ORDER BY ended LIMIT $3)",
        )
        .bind(before)
        .bind(node.as_str())
        .bind(i64::from(most))
        .execute(&self.pool)
        .await;
        deleted.map(|done| done.rows_affected()).map_err(fault)
    }
}

impl SqliteBackend {
    async fn insert_records(
        &self,
        records: &[CallRow<'_>],
        node: &NodeName,
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.begin().await?;
        for records in records.chunks(RECORDS_PER_STATEMENT) {
            let mut insert = record_insertion::<Sqlite>(records, node);
            insert.push(" ON CONFLICT (id) DO NOTHING");
            insert.build().execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}
