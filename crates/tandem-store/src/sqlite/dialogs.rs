//! The table of saved dialogs.

use super::{SqliteBackend, fault};
use crate::backend::{DialogTable, Fault, VisitDialog};
use crate::dialogs::DialogRow;
use crate::node_name::NodeName;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 200;

#[async_trait]
impl DialogTable for SqliteBackend {
    async fn load_dialogs(
        &self,
        node: &NodeName,
        now: u32,
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        let query = sqlx::query("SELECT id, state FROM dialog WHERE node = $1 AND expires_at > $2")
            .bind(node.as_str())
            .bind(i64::from(now));
        self.read_dialogs(query, restore).await.map_err(fault)
    }

    async fn load_overdue_dialogs(
        &self,
        node: &NodeName,
        (now, most): (u32, u32),
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        let query = sqlx::query(
            "SELECT id, state FROM dialog WHERE node = $1 AND expires_at <= $2 ORDER BY expires_at DESC LIMIT $3",
        )
        .bind(node.as_str())
        .bind(i64::from(now))
        .bind(i64::from(most));
        self.read_dialogs(query, restore).await.map_err(fault)
    }

    async fn save_dialogs(&self, node: &NodeName, batch: &[DialogRow]) -> Result<(), Fault> {
        self.write_dialogs(node, batch).await.map_err(fault)
    }

    async fn delete_expired_dialogs(&self, node: &NodeName, now: u32) -> Result<u64, Fault> {
        let deleted = sqlx::query("DELETE FROM dialog WHERE node = $1 AND expires_at <= $2")
            .bind(node.as_str())
            .bind(i64::from(now))
            .execute(&self.pool)
            .await;
        deleted.map(|done| done.rows_affected()).map_err(fault)
    }
}

impl SqliteBackend {
    async fn read_dialogs(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, sqlx::Error> {
        let mut rows = query.fetch(&self.pool);
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            let id: &[u8] = row.try_get(0)?;
            // The store writes only ids of 16 bytes.
            if let Ok(id) = id.try_into() {
                restore(u128::from_be_bytes(id), row.try_get(1)?);
                count += 1;
            }
        }
        Ok(count)
    }

    async fn write_dialogs(&self, node: &NodeName, batch: &[DialogRow]) -> Result<(), sqlx::Error> {
        let mut transaction = self.begin().await?;
        for rows in batch.chunks(ROWS_PER_STATEMENT) {
            delete(&mut transaction, node, rows).await?;
            insert(&mut transaction, node, rows).await?;
        }
        transaction.commit().await
    }
}

async fn delete(
    transaction: &mut Transaction<'static, Sqlite>,
    node: &NodeName,
    rows: &[DialogRow],
) -> Result<(), sqlx::Error> {
    let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM dialog WHERE node = ");
    delete.push_bind(node.as_str());
    delete.push(" AND id IN (");
    let mut ids = delete.separated(", ");
    for row in rows {
        ids.push_bind(row.id.to_be_bytes().to_vec());
    }
    delete.push(")");
    delete.build().execute(&mut **transaction).await?;
    Ok(())
}

async fn insert(
    transaction: &mut Transaction<'static, Sqlite>,
    node: &NodeName,
    rows: &[DialogRow],
) -> Result<(), sqlx::Error> {
    let live = || {
        rows.iter()
            .filter_map(|row| Some((row, row.state.as_deref()?)))
    };
    if live().next().is_none() {
        return Ok(());
    }
    let mut insert =
        QueryBuilder::<Sqlite>::new("INSERT INTO dialog (node, id, expires_at, state) ");
    insert.push_values(live(), |mut values, (row, state)| {
        values
            .push_bind(node.as_str())
            .push_bind(row.id.to_be_bytes().to_vec())
            .push_bind(i64::from(row.expires_at))
            .push_bind(state);
    });
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}
