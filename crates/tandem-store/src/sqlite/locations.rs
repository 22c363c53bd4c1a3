//! The table of saved bindings.

use super::{SqliteBackend, fault};
use crate::backend::{Fault, LocationTable, Mark, VisitBinding};
use crate::binding::{AddressBindings, BindingRow, Loaded};
use crate::node_name::NodeName;
use crate::sql::{BINDING, restore_binding};
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, QueryBuilder, Sqlite, Transaction};

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 100;

#[async_trait]
impl LocationTable for SqliteBackend {
    async fn load(&self, now: u32, restore: &mut VisitBinding<'_>) -> Result<Loaded, Fault> {
        let mut rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT {BINDING} FROM location WHERE expires_at > $1"
        )))
        .bind(i64::from(now))
        .fetch(&self.pool);
        let mut loaded = Loaded::default();
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            restore_binding(&row, restore, &mut loaded);
        }
        Ok(loaded)
    }

    async fn save(&self, entries: &[&AddressBindings<'_>], mark: Mark<'_>) -> Result<(), Fault> {
        self.replace(entries, mark).await.map_err(fault)
    }

    async fn last_full_save(&self, node: &NodeName) -> Result<i64, Fault> {
        let last: Result<Option<i64>, _> =
            sqlx::query_scalar("SELECT MAX(full_save) FROM location WHERE node = $1")
                .bind(node.as_str())
                .fetch_one(&self.pool)
                .await;
        last.map(Option::unwrap_or_default).map_err(fault)
    }

    async fn delete_other_saves(&self, mark: Mark<'_>) -> Result<u64, Fault> {
        let deleted = sqlx::query("DELETE FROM location WHERE node = $1 AND full_save <> $2")
            .bind(mark.node.as_str())
            .bind(mark.full_save)
            .execute(&self.pool)
            .await;
        deleted.map(|done| done.rows_affected()).map_err(fault)
    }

    async fn delete_expired(&self, node: &NodeName, now: u32) -> Result<u64, Fault> {
        let deleted = sqlx::query("DELETE FROM location WHERE node = $1 AND expires_at <= $2")
            .bind(node.as_str())
            .bind(i64::from(now))
            .execute(&self.pool)
            .await;
        deleted.map(|done| done.rows_affected()).map_err(fault)
    }

    async fn count_bindings(&self) -> Result<u64, Fault> {
        let count: Result<i64, _> = sqlx::query_scalar("SELECT COUNT(*) FROM location")
            .fetch_one(&self.pool)
            .await;
        count.map(i64::cast_unsigned).map_err(fault)
    }
}

impl SqliteBackend {
    async fn replace(
        &self,
        entries: &[&AddressBindings<'_>],
        mark: Mark<'_>,
    ) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = entries
            .iter()
            .flat_map(|entry| {
                entry
                    .bindings
                    .iter()
                    .map(|binding| (&*entry.address, binding))
            })
            .collect();
        let mut transaction = self.begin().await?;
        for entries in entries.chunks(ROWS_PER_STATEMENT) {
            delete(&mut transaction, entries, mark.node).await?;
        }
        for rows in rows.chunks(ROWS_PER_STATEMENT) {
            insert(&mut transaction, rows, mark).await?;
        }
        transaction.commit().await
    }
}

async fn delete(
    transaction: &mut Transaction<'static, Sqlite>,
    entries: &[&AddressBindings<'_>],
    node: &NodeName,
) -> Result<(), sqlx::Error> {
    let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM location WHERE node = ");
    delete.push_bind(node.as_str());
    delete.push(" AND address IN (");
    let mut addresses = delete.separated(", ");
    for entry in entries {
        addresses.push_bind(entry.address.as_ref());
    }
    delete.push(")");
    delete.build().execute(&mut **transaction).await?;
    Ok(())
}

async fn insert(
    transaction: &mut Transaction<'static, Sqlite>,
    rows: &[(&[u8], &BindingRow<'_>)],
    mark: Mark<'_>,
) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "INSERT INTO location \
         (address, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener, node, full_save) ",
    );
    insert.push_values(rows, |mut row, (address, binding)| {
        row.push_bind(*address)
            .push_bind(binding.contact.as_ref())
            .push_bind(i64::from(binding.q))
            .push_bind(i64::from(binding.expires_at))
            .push_bind(binding.call_id.as_ref())
            .push_bind(i64::from(binding.cseq))
            .push_bind(binding.path.as_ref())
            .push_bind(binding.instance.as_ref())
            .push_bind(binding.user_agent.as_ref())
            .push_bind(binding.source.to_string())
            .push_bind(binding.listener.as_ref())
            .push_bind(mark.node.as_str())
            .push_bind(mark.full_save);
    });
    // The node's old rows are gone. What is there belongs to another node, or a contact appears twice: that is a mistake of the caller, but
    // it must not make the save of the other entries fail.
    insert.push(
        " ON CONFLICT (address, contact) DO UPDATE SET q = excluded.q, expires_at = excluded.expires_at, \
         call_id = excluded.call_id, cseq = excluded.cseq, path = excluded.path, instance = excluded.instance, \
         user_agent = excluded.user_agent, source = excluded.source, listener = excluded.listener, \
         node = excluded.node, full_save = excluded.full_save \
         WHERE node = excluded.node OR expires_at < excluded.expires_at",
    );
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}
