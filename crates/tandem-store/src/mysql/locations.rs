//! The table of saved bindings.

use super::node_lock::begin_as;
use super::{MySqlBackend, fault};
use crate::backend::{Fault, LocationTable, Mark, VisitBinding};
use crate::binding::{AddressBindings, BindingRow, Loaded};
use crate::network::{
    Fence, WHOLE_TABLE_TIMEOUT, digest, distinct, each_binding, within, within_time,
};
use crate::node_name::NodeName;
use crate::sql::BINDING;
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, QueryBuilder, Transaction};

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 250;

#[async_trait]
impl LocationTable for MySqlBackend {
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
        let query = sqlx::query_scalar("SELECT MAX(full_save) FROM location WHERE node = ?")
            .bind(node.as_str().as_bytes());
        let mut lease = self.lease().await?;
        let last = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        let last: Result<Option<i64>, _> = lease.end(last);
        last.map(Option::unwrap_or_default).map_err(fault)
    }

    async fn delete_other_saves(&self, mark: Mark<'_>) -> Result<u64, Fault> {
        let query = sqlx::query("DELETE FROM location WHERE node = ? AND full_save <> ?")
            .bind(mark.node.as_str().as_bytes())
            .bind(mark.full_save);
        self.delete_as(mark.node, query).await
    }

    async fn delete_expired(&self, node: &NodeName, now: u32) -> Result<u64, Fault> {
        let query = sqlx::query("DELETE FROM location WHERE node = ? AND expires_at <= ?")
            .bind(node.as_str().as_bytes())
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
    connection: &mut MySqlConnection,
    now: u32,
    restore: &mut VisitBinding<'_>,
) -> Result<Loaded, sqlx::Error> {
    let rows = sqlx::query(AssertSqlSafe(format!(
        "SELECT {BINDING} FROM location WHERE expires_at > ?"
    )))
    .bind(i64::from(now))
    .fetch(connection);
    each_binding(rows, restore).await
}

async fn replace(
    connection: &mut MySqlConnection,
    entries: &[&AddressBindings<'_>],
    mark: Mark<'_>,
    fence: &Fence,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = distinct(entries)
        .map(|(address, binding)| (address, digest(address, &binding.contact), binding))
        .collect();
    let mut transaction = begin_as(connection, mark.node, fence).await?;
    for entries in entries.chunks(ROWS_PER_STATEMENT) {
        delete_others(&mut transaction, entries, mark.node).await?;
    }
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        insert(&mut transaction, rows, mark).await?;
    }
    transaction.commit().await
}

/// Deletes the node's rows of these addresses, except those that are about to be written.
async fn delete_others(
    transaction: &mut Transaction<'_, MySql>,
    entries: &[&AddressBindings<'_>],
    node: &NodeName,
) -> Result<(), sqlx::Error> {
    let mut delete = QueryBuilder::<MySql>::new("DELETE FROM location WHERE node = ");
    delete.push_bind(node.as_str().as_bytes());
    delete.push(" AND address IN (");
    let mut addresses = delete.separated(", ");
    for entry in entries {
        addresses.push_bind(entry.address.as_ref());
    }
    delete.push(")");
    let mut kept = distinct(entries).peekable();
    if kept.peek().is_some() {
        delete.push(" AND digest NOT IN (");
        let mut digests = delete.separated(", ");
        for (address, binding) in kept {
            digests.push_bind(digest(address, &binding.contact).to_vec());
        }
        delete.push(")");
    }
    delete.build().execute(&mut **transaction).await?;
    Ok(())
}

async fn insert(
    transaction: &mut Transaction<'_, MySql>,
    rows: &[(&[u8], [u8; 32], &BindingRow<'_>)],
    mark: Mark<'_>,
) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::<MySql>::new(
        "INSERT INTO location \
         (address, digest, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener, node, full_save) ",
    );
    insert.push_values(rows, |mut row, (address, digest, binding)| {
        row.push_bind(*address)
            .push_bind(digest.as_slice())
            .push_bind(binding.contact.as_ref())
            .push_bind(binding.q)
            .push_bind(binding.expires_at)
            .push_bind(binding.call_id.as_ref())
            .push_bind(binding.cseq)
            .push_bind(binding.path.as_ref())
            .push_bind(binding.instance.as_ref())
            .push_bind(binding.user_agent.as_ref())
            .push_bind(binding.source.to_string().into_bytes())
            .push_bind(binding.listener.as_bytes())
            .push_bind(mark.node.as_str().as_bytes())
            .push_bind(mark.full_save);
    });
    insert.push(" ON DUPLICATE KEY UPDATE ");
    let mut columns = insert.separated(", ");
    // Assignments count at once, so those that the condition reads come last: the node, then the expiry.
    for column in [
        "q",
        "call_id",
        "cseq",
        "path",
        "instance",
        "user_agent",
        "source",
        "listener",
        "full_save",
        "node",
        "expires_at",
    ] {
        columns.push(format_args!(
            "{column} = IF(node = VALUES(node) OR expires_at < VALUES(expires_at), VALUES({column}), {column})"
        ));
    }
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}
