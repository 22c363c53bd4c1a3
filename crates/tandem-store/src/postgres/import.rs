//! Adds or replaces many subscribers at once. A batch is sent as arrays, one for each column.

use super::changes::Change;
use crate::import_plan::{ImportPlan, name};
use crate::subscriber::{Existing, Imported, Registrations, Subscriber};
use sqlx::PgConnection;
use std::collections::HashSet;

pub(super) async fn import(
    connection: &mut PgConnection,
    batch: &[Subscriber],
    existing: Existing,
) -> Result<Imported, sqlx::Error> {
    let mut imported = Imported::default();
    let mut change = Change::begin(connection).await?;
    let known = known_among(&mut change.transaction, batch).await?;
    let plan = ImportPlan::new(batch, 0, &known, existing, &mut imported);
    write(&mut change.transaction, &plan.write).await?;
    let changed: Vec<_> = plan.write.iter().map(|entry| name(entry)).collect();
    change.commit(&changed, Registrations::Keep).await?;
    Ok(imported)
}

/// The names among these that are in the database.
async fn known_among(
    connection: &mut PgConnection,
    batch: &[Subscriber],
) -> Result<HashSet<(String, String)>, sqlx::Error> {
    let (usernames, domains): (Vec<&str>, Vec<&str>) = batch.iter().map(name).unzip();
    let known: Vec<(String, String)> = sqlx::query_as(
        "SELECT username, domain FROM subscriber \
         JOIN unnest($1::text[], $2::text[]) AS asked (username, domain) USING (username, domain)",
    )
    .bind(usernames)
    .bind(domains)
    .fetch_all(connection)
    .await?;
    Ok(known.into_iter().collect())
}

async fn write(connection: &mut PgConnection, entries: &[&Subscriber]) -> Result<(), sqlx::Error> {
    let (usernames, domains): (Vec<&str>, Vec<&str>) =
        entries.iter().map(|entry| name(entry)).unzip();
    let hashes = entries.iter().map(|entry| {
        let credentials = &entry.credentials;
        (
            credentials.ha1_md5.as_slice(),
            credentials.ha1_sha256.as_slice(),
        )
    });
    let (md5, sha256): (Vec<&[u8]>, Vec<&[u8]>) = hashes.unzip();
    sqlx::query(
        "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) \
         SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[]) \
         ON CONFLICT (username, domain) DO UPDATE SET ha1_md5 = excluded.ha1_md5, ha1_sha256 = excluded.ha1_sha256",
    )
    .bind(usernames)
    .bind(domains)
    .bind(md5)
    .bind(sha256)
    .execute(connection)
    .await?;
    Ok(())
}
