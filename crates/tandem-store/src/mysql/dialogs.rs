//! The table of saved dialogs.

use super::node_lock::begin_as;
use super::{MySqlBackend, fault};
use crate::backend::{DialogTable, Fault, VisitDialog};
use crate::dialogs::DialogRow;
use crate::network::{Fence, within};
use crate::node_name::NodeName;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection, QueryBuilder, Row, Transaction};

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 200;

#[async_trait]
impl DialogTable for MySqlBackend {
    async fn load_dialogs(
        &self,
        node: &NodeName,
        now: u32,
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query("SELECT id, state FROM dialog WHERE node = ? AND expires_at > ?")
            .bind(node.as_str().as_bytes())
            .bind(i64::from(now));
        let loaded = load(&mut lease, query, restore).await;
        lease.end(loaded).map_err(fault)
    }

    async fn load_overdue_dialogs(
        &self,
        node: &NodeName,
        (now, most): (u32, u32),
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query(
            "SELECT id, state FROM dialog WHERE node = ? AND expires_at <= ? ORDER BY expires_at DESC LIMIT ?",
        )
        .bind(node.as_str().as_bytes())
        .bind(i64::from(now))
        .bind(i64::from(most));
        let loaded = load(&mut lease, query, restore).await;
        lease.end(loaded).map_err(fault)
    }

    async fn save_dialogs(&self, node: &NodeName, batch: &[DialogRow]) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let saved = within(save(&mut lease, node, batch, self.claims.fence())).await;
        lease.end(saved).map_err(fault)
    }

    async fn delete_expired_dialogs(&self, node: &NodeName, now: u32) -> Result<u64, Fault> {
        let query = sqlx::query("DELETE FROM dialog WHERE node = ? AND expires_at <= ?")
            .bind(node.as_str().as_bytes())
            .bind(i64::from(now));
        self.delete_as(node, query).await
    }
}

async fn load(
    connection: &mut MySqlConnection,
    query: Query<'_, MySql, MySqlArguments>,
    restore: &mut VisitDialog<'_>,
) -> Result<u64, sqlx::Error> {
    let mut rows = query.fetch(connection);
    let mut count = 0;
    while let Some(row) = within(rows.try_next()).await? {
        let id: &[u8] = row.try_get(0)?;
        // The store writes only ids of 16 bytes.
        if let Ok(id) = id.try_into() {
            restore(u128::from_be_bytes(id), row.try_get(1)?);
            count += 1;
        }
    }
    Ok(count)
}

async fn save(
    connection: &mut MySqlConnection,
    node: &NodeName,
    batch: &[DialogRow],
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let mut transaction = begin_as(connection, node, fence).await?;
    for rows in batch.chunks(ROWS_PER_STATEMENT) {
        delete(&mut transaction, node, rows).await?;
        insert(&mut transaction, node, rows).await?;
    }
    transaction.commit().await
}

async fn delete(
    transaction: &mut Transaction<'_, MySql>,
    node: &NodeName,
    rows: &[DialogRow],
) -> Result<(), sqlx::Error> {
    let mut delete = QueryBuilder::<MySql>::new("DELETE FROM dialog WHERE node = ");
    delete.push_bind(node.as_str().as_bytes());
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
    transaction: &mut Transaction<'_, MySql>,
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
        QueryBuilder::<MySql>::new("INSERT INTO dialog (node, id, expires_at, state) ");
    insert.push_values(live(), |mut values, (row, state)| {
        values
            .push_bind(node.as_str().as_bytes())
            .push_bind(row.id.to_be_bytes().to_vec())
            .push_bind(row.expires_at)
            .push_bind(state);
    });
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}
