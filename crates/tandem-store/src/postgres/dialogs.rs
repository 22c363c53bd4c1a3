//! The table of saved dialogs.

use super::{PostgresBackend, fault, turn};
use crate::backend::{DialogTable, Fault, VisitDialog};
use crate::dialogs::DialogRow;
use crate::network::{Fence, within};
use crate::node_name::NodeName;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

#[async_trait]
impl DialogTable for PostgresBackend {
    async fn load_dialogs(
        &self,
        node: &NodeName,
        now: u32,
        restore: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query("SELECT id, state FROM dialog WHERE node = $1 AND expires_at > $2")
            .bind(node.as_str())
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
            "SELECT id, state FROM dialog WHERE node = $1 AND expires_at <= $2 ORDER BY expires_at DESC LIMIT $3",
        )
        .bind(node.as_str())
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
        let query = sqlx::query("DELETE FROM dialog WHERE node = $1 AND expires_at <= $2")
            .bind(node.as_str())
            .bind(i64::from(now));
        self.delete_as(node, query).await
    }
}

async fn load(
    connection: &mut PgConnection,
    query: Query<'_, Postgres, PgArguments>,
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
    connection: &mut PgConnection,
    node: &NodeName,
    batch: &[DialogRow],
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let ids: Vec<[u8; 16]> = batch.iter().map(|row| row.id.to_be_bytes()).collect();
    let live = || {
        batch
            .iter()
            .filter_map(|row| Some((row, row.state.as_deref()?)))
    };
    let mut transaction = turn::begin(connection, "dialog", node, fence).await?;
    sqlx::query("DELETE FROM dialog WHERE node = $1 AND id = ANY ($2::bytea[])")
        .bind(node.as_str())
        .bind(ids)
        .execute(&mut *transaction)
        .await?;
    sqlx::query(
        "INSERT INTO dialog (node, id, expires_at, state) \
         SELECT $1::text, * FROM unnest($2::bytea[], $3::bigint[], $4::bytea[])",
    )
    .bind(node.as_str())
    .bind(
        live()
            .map(|(row, _)| row.id.to_be_bytes())
            .collect::<Vec<_>>(),
    )
    .bind(
        live()
            .map(|(row, _)| i64::from(row.expires_at))
            .collect::<Vec<_>>(),
    )
    .bind(live().map(|(_, state)| state).collect::<Vec<_>>())
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await
}
