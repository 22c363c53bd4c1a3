//! The table of saved bindings.

use super::{PostgresBackend, begin_stream, fault, turn};
use crate::backend::{Fault, LocationTable, Mark, VisitBinding};
use crate::binding::{AddressBindings, BindingRow, Loaded};
use crate::network::{
    Fence, WHOLE_TABLE_TIMEOUT, digest, distinct, each_binding, within, within_time,
};
use crate::node_name::NodeName;
use crate::sql::BINDING;
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

#[async_trait]
impl LocationTable for PostgresBackend {
    async fn load(&self, now: u32, restore: &mut VisitBinding<'_>) -> Result<Loaded, Fault> {
        let mut lease = self.lease().await?;
        let loaded = load(&mut lease, now, restore).await;
        lease.end(loaded).map_err(fault)
    }

    async fn save(&self, entries: &[&AddressBindings<'_>], mark: Mark<'_>) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let saved = within(replace(&mut lease, entries, mark, self.claims.fence())).await;
        lease.end(saved).map_err(fault)
    }

    async fn last_full_save(&self, node: &NodeName) -> Result<i64, Fault> {
        let query = sqlx::query_scalar("SELECT MAX(full_save) FROM location WHERE node = $1")
            .bind(node.as_str());
        let mut lease = self.lease().await?;
        let last = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        let last: Result<Option<i64>, _> = lease.end(last);
        last.map(Option::unwrap_or_default).map_err(fault)
    }

    async fn delete_other_saves(&self, mark: Mark<'_>) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let deleted = within_time(
            WHOLE_TABLE_TIMEOUT,
            delete_other_saves(&mut lease, mark, self.claims.fence()),
        )
        .await;
        lease.end(deleted).map_err(fault)
    }

    async fn delete_expired(&self, node: &NodeName, now: u32) -> Result<u64, Fault> {
        let query = sqlx::query("DELETE FROM location WHERE node = $1 AND expires_at <= $2")
            .bind(node.as_str())
            .bind(i64::from(now));
        self.delete_as(node, query).await
    }

    async fn count_bindings(&self) -> Result<u64, Fault> {
        let query = sqlx::query_scalar("SELECT COUNT(*) FROM location");
        let mut lease = self.lease().await?;
        let count = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        lease.end(count).map(i64::cast_unsigned).map_err(fault)
    }
}

async fn load(
    connection: &mut PgConnection,
    now: u32,
    restore: &mut VisitBinding<'_>,
) -> Result<Loaded, sqlx::Error> {
    let mut transaction = begin_stream(connection).await?;
    let rows = sqlx::query(AssertSqlSafe(format!(
        "SELECT {BINDING} FROM location WHERE expires_at > $1"
    )))
    .bind(i64::from(now))
    .fetch(&mut *transaction);
    let loaded = each_binding(rows, restore).await?;
    within(transaction.commit()).await?;
    Ok(loaded)
}

async fn delete_other_saves(
    connection: &mut PgConnection,
    mark: Mark<'_>,
    fence: &Fence,
) -> Result<u64, sqlx::Error> {
    let mut transaction = turn::begin(connection, "location", mark.node, fence).await?;
    let deleted = sqlx::query("DELETE FROM location WHERE node = $1 AND full_save <> $2")
        .bind(mark.node.as_str())
        .bind(mark.full_save)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(deleted.rows_affected())
}

async fn replace(
    connection: &mut PgConnection,
    entries: &[&AddressBindings<'_>],
    mark: Mark<'_>,
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = distinct(entries).collect();
    let digests: Vec<[u8; 32]> = rows
        .iter()
        .map(|(address, binding)| digest(address, &binding.contact))
        .collect();
    let addresses: Vec<&[u8]> = entries.iter().map(|entry| &*entry.address).collect();
    let mut transaction = turn::begin(connection, "location", mark.node, fence).await?;
    sqlx::query(
        "DELETE FROM location USING unnest($2::bytea[]) AS saved (address) \
         WHERE node = $1 AND substring(location.address, 1, 255) = substring(saved.address, 1, 255) \
         AND location.address = saved.address \
         AND NOT EXISTS (SELECT FROM unnest($3::bytea[]) AS kept (digest) WHERE kept.digest = location.digest)",
    )
    .bind(mark.node.as_str())
    .bind(addresses)
    .bind(&digests)
    .execute(&mut *transaction)
    .await?;
    insert(&mut transaction, &rows, digests, mark).await?;
    transaction.commit().await
}

/// Writes the rows, as one array for each column.
async fn insert(
    connection: &mut PgConnection,
    rows: &[(&[u8], &BindingRow<'_>)],
    digests: Vec<[u8; 32]>,
    mark: Mark<'_>,
) -> Result<(), sqlx::Error> {
    type Bytes<'b> = Vec<&'b [u8]>;
    let of = |column: fn(&BindingRow<'_>) -> i64| -> Vec<i64> {
        rows.iter().map(|(_, binding)| column(binding)).collect()
    };
    let q: Vec<i32> = rows.iter().map(|(_, binding)| binding.q.into()).collect();
    sqlx::query(
        "INSERT INTO location \
         (address, digest, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener, node, full_save) \
         SELECT *, $13::text, $14::bigint FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::integer[], $5::bigint[], $6::bytea[], $7::bigint[], \
         $8::bytea[], $9::bytea[], $10::bytea[], $11::text[], $12::text[]) \
         ON CONFLICT (substring(address, 1, 255), digest) DO UPDATE SET q = excluded.q, expires_at = excluded.expires_at, \
         call_id = excluded.call_id, cseq = excluded.cseq, path = excluded.path, instance = excluded.instance, \
         user_agent = excluded.user_agent, source = excluded.source, listener = excluded.listener, \
         node = excluded.node, full_save = excluded.full_save \
         WHERE location.node = excluded.node OR location.expires_at < excluded.expires_at",
    )
    .bind(rows.iter().map(|(address, _)| *address).collect::<Bytes<'_>>())
    .bind(digests)
    .bind(rows.iter().map(|(_, it)| &*it.contact).collect::<Bytes<'_>>())
    .bind(q)
    .bind(of(|binding| binding.expires_at.into()))
    .bind(rows.iter().map(|(_, it)| &*it.call_id).collect::<Bytes<'_>>())
    .bind(of(|binding| binding.cseq.into()))
    .bind(rows.iter().map(|(_, it)| &*it.path).collect::<Bytes<'_>>())
    .bind(rows.iter().map(|(_, it)| &*it.instance).collect::<Bytes<'_>>())
    .bind(rows.iter().map(|(_, it)| &*it.user_agent).collect::<Bytes<'_>>())
    .bind(rows.iter().map(|(_, it)| it.source.to_string()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, it)| &*it.listener).collect::<Vec<&str>>())
    .bind(mark.node.as_str())
    .bind(mark.full_save)
    .execute(connection)
    .await?;
    Ok(())
}
