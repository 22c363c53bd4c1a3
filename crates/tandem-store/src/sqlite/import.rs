//! Adds or replaces many subscribers at once.

use super::SqliteBackend;
use super::changes::record_and_commit;
use crate::import_plan::{ImportPlan, name};
use crate::subscriber::{Existing, Imported, Registrations, Subscriber};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::collections::HashSet;

/// Subscribers written per statement.
const ROWS_PER_STATEMENT: usize = 250;

pub(super) async fn import(
    backend: &SqliteBackend,
    batch: &[Subscriber],
    existing: Existing,
) -> Result<Imported, sqlx::Error> {
    let mut imported = Imported::default();
    let mut changed = Vec::with_capacity(batch.len());
    let mut transaction = backend.begin().await?;
    for (chunk, start) in batch
        .chunks(ROWS_PER_STATEMENT)
        .zip((0..).step_by(ROWS_PER_STATEMENT))
    {
        let known = known_among(&mut transaction, chunk).await?;
        let plan = ImportPlan::new(chunk, start, &known, existing, &mut imported);
        write(&mut transaction, &plan.write).await?;
        changed.extend(plan.write.iter().map(|entry| name(entry)));
    }
    record_and_commit(transaction, &changed, Registrations::Keep).await?;
    Ok(imported)
}

/// The names among these that are in the database.
async fn known_among(
    transaction: &mut Transaction<'static, Sqlite>,
    chunk: &[Subscriber],
) -> Result<HashSet<(String, String)>, sqlx::Error> {
    let mut select = QueryBuilder::<Sqlite>::new("WITH asked (username, domain) AS (");
    select.push_values(chunk, |mut row, entry| {
        row.push_bind(entry.username.as_str())
            .push_bind(entry.domain.as_str());
    });
    select.push(
        ") SELECT known.username, known.domain FROM asked CROSS JOIN subscriber known \
         ON known.username = asked.username AND known.domain = asked.domain",
    );
    let rows = select.build().fetch_all(&mut **transaction).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

async fn write(
    transaction: &mut Transaction<'static, Sqlite>,
    entries: &[&Subscriber],
) -> Result<(), sqlx::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut insert = QueryBuilder::<Sqlite>::new(
        "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) ",
    );
    insert.push_values(entries, |mut row, entry| {
        row.push_bind(entry.username.as_str())
            .push_bind(entry.domain.as_str())
            .push_bind(entry.credentials.ha1_md5.as_slice())
            .push_bind(entry.credentials.ha1_sha256.as_slice());
    });
    insert.push(
        " ON CONFLICT (username, domain) DO UPDATE SET ha1_md5 = excluded.ha1_md5, ha1_sha256 = excluded.ha1_sha256",
    );
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}
