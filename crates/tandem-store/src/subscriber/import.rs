//! Adds or replaces many subscribers at once.

use super::{Subscriber, Subscribers};
use crate::StoreError;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::collections::{HashMap, HashSet};

/// Subscribers written per statement.
const ROWS_PER_STATEMENT: usize = 250;

/// What happens to subscribers that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They stay as they are.
    Keep,
    /// They get the new password. If a batch has two entries for one name, the later one counts.
    Replace,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// New subscribers.
    pub added: u64,
    /// Subscribers that got another password.
    pub replaced: u64,
    /// Positions in the batch of subscribers that existed and were kept.
    pub kept: Vec<usize>,
}

type Name<'a> = (&'a str, &'a str);

impl Subscribers<'_> {
    /// Adds a batch of subscribers in one transaction: all of them, or none. A few thousand make a good batch. Pause briefly between two
    /// batches, so that a server can save in between.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is written.
    pub async fn import(
        &self,
        batch: &[Subscriber],
        existing: Existing,
    ) -> Result<Imported, StoreError> {
        const DOING: &str = "import subscribers";
        let failed = |error| self.store.failed(DOING, &error);
        let mut imported = Imported::default();
        let mut changed = Vec::with_capacity(batch.len());
        let mut transaction = self.store.begin(DOING).await?;
        for (chunk, start) in batch
            .chunks(ROWS_PER_STATEMENT)
            .zip((0..).step_by(ROWS_PER_STATEMENT))
        {
            let known = known_among(&mut transaction, chunk).await.map_err(failed)?;
            let plan = Plan::new(chunk, start, &known, existing, &mut imported);
            write(&mut transaction, &plan.write).await.map_err(failed)?;
            changed.extend(plan.write.iter().map(|entry| name(entry)));
        }
        self.record_and_commit(transaction, &changed, DOING).await?;
        Ok(imported)
    }
}

fn name(subscriber: &Subscriber) -> Name<'_> {
    (&subscriber.username, &subscriber.domain)
}

/// The entries of a chunk to write: each name once.
struct Plan<'b> {
    write: Vec<&'b Subscriber>,
}

impl<'b> Plan<'b> {
    fn new(
        chunk: &'b [Subscriber],
        start: usize,
        known: &HashSet<(String, String)>,
        existing: Existing,
        imported: &mut Imported,
    ) -> Self {
        let known: HashSet<Name<'_>> = known
            .iter()
            .map(|(username, domain)| (&**username, &**domain))
            .collect();
        let mut slots: HashMap<Name<'b>, usize> = HashMap::with_capacity(chunk.len());
        let mut write: Vec<&'b Subscriber> = Vec::with_capacity(chunk.len());
        for (entry, position) in chunk.iter().zip(start..) {
            let earlier = slots.get(&name(entry)).copied();
            let exists = earlier.is_some() || known.contains(&name(entry));
            match (exists, existing) {
                (false, _) => imported.added += 1,
                (true, Existing::Keep) => {
                    imported.kept.push(position);
                    continue;
                }
                (true, Existing::Replace) => imported.replaced += 1,
            }
            if let Some(slot) = earlier.and_then(|slot| write.get_mut(slot)) {
                *slot = entry;
            } else {
                slots.insert(name(entry), write.len());
                write.push(entry);
            }
        }
        Self { write }
    }
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
