//! Adds or replaces many subscribers at once.

use super::changes::Change;
use super::columns::read_name;
use crate::import_plan::{ImportPlan, name};
use crate::subscriber::{Existing, Imported, Registrations, Subscriber};
use sqlx::{MySql, MySqlConnection, QueryBuilder};
use std::collections::{BTreeSet, HashSet};

/// Subscribers read and written per statement. MariaDB turns lists of a thousand values and more into temporary tables.
const ROWS_PER_STATEMENT: usize = 500;

pub(super) async fn import(
    connection: &mut MySqlConnection,
    batch: &[Subscriber],
    existing: Existing,
) -> Result<Imported, sqlx::Error> {
    let mut imported = Imported::default();
    let mut changed = Vec::with_capacity(batch.len());
    let mut change = Change::begin(connection).await?;
    for (chunk, start) in batch
        .chunks(ROWS_PER_STATEMENT)
        .zip((0..).step_by(ROWS_PER_STATEMENT))
    {
        let known = known_among(&mut change.transaction, chunk).await?;
        let plan = ImportPlan::new(chunk, start, &known, existing, &mut imported);
        write(&mut change.transaction, &plan.write).await?;
        changed.extend(plan.write.iter().map(|entry| name(entry)));
    }
    change.commit(&changed, Registrations::Keep).await?;
    Ok(imported)
}

/// The names in the database that have a username of the chunk. Usernames alone, because the optimizer gives up on lists of pairs.
async fn known_among(
    connection: &mut MySqlConnection,
    chunk: &[Subscriber],
) -> Result<HashSet<(String, String)>, sqlx::Error> {
    let usernames: BTreeSet<&str> = chunk.iter().map(|entry| &*entry.username).collect();
    let mut select =
        QueryBuilder::<MySql>::new("SELECT username, domain FROM subscriber WHERE username IN (");
    let mut list = select.separated(", ");
    for username in usernames {
        list.push_bind(username.as_bytes());
    }
    select.push(")");
    let rows = select.build().fetch_all(connection).await?;
    rows.iter().map(read_name).collect()
}

async fn write(
    connection: &mut MySqlConnection,
    entries: &[&Subscriber],
) -> Result<(), sqlx::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut insert = QueryBuilder::<MySql>::new(
        "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) ",
    );
    insert.push_values(entries, |mut row, entry| {
        row.push_bind(entry.username.as_bytes())
            .push_bind(entry.domain.as_bytes())
            .push_bind(entry.credentials.ha1_md5.as_slice())
            .push_bind(entry.credentials.ha1_sha256.as_slice());
    });
    insert.push(
        " ON DUPLICATE KEY UPDATE ha1_md5 = VALUES(ha1_md5), ha1_sha256 = VALUES(ha1_sha256)",
    );
    insert.build().execute(connection).await?;
    Ok(())
}
