//! The record of changed subscribers: which version touched which name.

use super::columns::read_name;
use crate::import_plan::Name;
use crate::sql::REMEMBERED_CHANGES;
use crate::subscriber::Registrations;
use sqlx::{Connection, MySql, MySqlConnection, QueryBuilder, Transaction};

/// Names recorded per statement.
const ROWS_PER_STATEMENT: usize = 1_000;

/// A transaction that changes subscribers.
pub(super) struct Change<'c> {
    pub(super) transaction: Transaction<'c, MySql>,
    version: i64,
}

impl<'c> Change<'c> {
    /// Waits until no other process changes subscribers, so versions become visible in the order of their numbers.
    pub(super) async fn begin(connection: &'c mut MySqlConnection) -> Result<Self, sqlx::Error> {
        let mut transaction = connection.begin().await?;
        let version =
            sqlx::query_scalar("SELECT version FROM subscriber_version WHERE id = 1 FOR UPDATE")
                .fetch_one(&mut *transaction)
                .await?;
        Ok(Self {
            transaction,
            version,
        })
    }

    /// Records the change of one subscriber and commits, if a statement has changed `rows`. Returns whether it has.
    pub(super) async fn commit_one(
        self,
        rows: u64,
        name: Name<'_>,
        registrations: Registrations,
    ) -> Result<bool, sqlx::Error> {
        if rows == 0 {
            return Ok(false);
        }
        self.commit(&[name], registrations).await?;
        Ok(true)
    }

    /// Records the changed names, and commits.
    pub(super) async fn commit(
        mut self,
        changed: &[Name<'_>],
        registrations: Registrations,
    ) -> Result<(), sqlx::Error> {
        let last = self.version + i64::try_from(changed.len()).unwrap_or(i64::MAX);
        let mut version = self.version;
        for names in changed.chunks(ROWS_PER_STATEMENT) {
            let mut insert = QueryBuilder::<MySql>::new(
                "INSERT INTO subscriber_change (version, username, domain, ends_registrations) ",
            );
            insert.push_values(names, |mut row, (username, domain)| {
                version += 1;
                row.push_bind(version)
                    .push_bind(username.as_bytes())
                    .push_bind(domain.as_bytes())
                    .push_bind(registrations == Registrations::End);
            });
            insert.build().execute(&mut *self.transaction).await?;
        }
        sqlx::query("UPDATE subscriber_version SET version = ? WHERE id = 1")
            .bind(last)
            .execute(&mut *self.transaction)
            .await?;
        // All writers share the record and its bound. A reader that misses a version knows that it is too far behind.
        sqlx::query("DELETE FROM subscriber_change WHERE version <= ?")
            .bind(last - REMEMBERED_CHANGES)
            .execute(&mut *self.transaction)
            .await?;
        self.transaction.commit().await
    }
}

pub(super) async fn version(connection: &mut MySqlConnection) -> Result<u64, sqlx::Error> {
    let version: i64 = sqlx::query_scalar("SELECT version FROM subscriber_version WHERE id = 1")
        .fetch_one(connection)
        .await?;
    Ok(version.cast_unsigned())
}

/// The names of the changes after one version, up to and including another.
pub(super) const CHANGES: &str = "SELECT username, domain FROM subscriber_change WHERE version > ? AND version <= ? ORDER BY version";
/// Those of the changes that ended registrations.
pub(super) const REGISTRATIONS_ENDED: &str = "SELECT username, domain FROM subscriber_change \
     WHERE version > ? AND version <= ? AND ends_registrations ORDER BY version";

pub(super) async fn names(
    connection: &mut MySqlConnection,
    statement: &'static str,
    after: u64,
    last: u64,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows = sqlx::query(statement)
        .bind(after.cast_signed())
        .bind(last.cast_signed())
        .fetch_all(connection)
        .await?;
    rows.iter().map(read_name).collect()
}
