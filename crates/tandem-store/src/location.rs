//! Saved bindings (RFC 3261 section 10): the server saves them in the background and restores them at its start.
//!
//! The server's memory is authoritative. The database lags behind it by the save interval. A save writes the current bindings of an address
//! of record. Saving again is therefore harmless, and the next save of the same address repairs a lost one.

mod full_save;

pub use full_save::FullSave;

use crate::{Store, StoreError};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::borrow::Cow;
use std::net::SocketAddr;

/// Rows written per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 100;

/// One contact of an address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRow<'a> {
    /// The contact URI as registered.
    pub contact: Cow<'a, [u8]>,
    /// Preference in thousandths.
    pub q: u16,
    /// When it expires, in seconds since the Unix epoch.
    pub expires_at: u32,
    /// Call-ID of the REGISTER that created it.
    pub call_id: Cow<'a, [u8]>,
    /// `CSeq` of the last REGISTER.
    pub cseq: u32,
    /// Path header field values, comma-joined, first hop first; empty if there are none (RFC 3327).
    pub path: Cow<'a, [u8]>,
    /// `+sip.instance` value; empty if there is none (RFC 5626).
    pub instance: Cow<'a, [u8]>,
    /// User-Agent; empty if there is none.
    pub user_agent: Cow<'a, [u8]>,
    /// Where the REGISTER came from.
    pub source: SocketAddr,
    /// The listener that received the REGISTER, as `transport:address`: listeners may change their order between starts.
    pub listener: Cow<'a, str>,
}

/// All bindings of one address of record. An empty list removes the saved bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBindings<'a> {
    /// `user@domain`, in canonical form.
    pub address: Cow<'a, [u8]>,
    /// Its current bindings.
    pub bindings: Vec<BindingRow<'a>>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Bindings passed to the callback.
    pub bindings: u64,
    /// Invalid rows that were skipped. The store writes none, so another program wrote them.
    pub unreadable: u64,
}

/// The saved bindings of a [`Store`].
#[derive(Clone, Copy, Debug)]
pub struct Locations<'s> {
    store: &'s Store,
}

impl<'s> Locations<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self { store }
    }

    /// Passes every binding that expires after `now` (seconds since the Unix epoch) to `restore`, with its address of record, in no
    /// particular order. Rows are streamed: a million need no more memory than one.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn load_all(
        &self,
        now: u32,
        mut restore: impl FnMut(&[u8], &BindingRow<'_>),
    ) -> Result<Loaded, StoreError> {
        let failed = |error| self.store.failed("read the locations", &error);
        let mut rows = sqlx::query(
            "SELECT address, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener \
             FROM location WHERE expires_at > $1",
        )
        .bind(i64::from(now))
        .fetch(self.store.pool());
        let mut loaded = Loaded::default();
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            match decode(&row) {
                Ok((address, binding)) => {
                    restore(address, &binding);
                    loaded.bindings += 1;
                }
                Err(_) => loaded.unreadable += 1,
            }
        }
        Ok(loaded)
    }

    /// Saves the current bindings of these addresses of record in one transaction. If a batch has two entries for one address, the later
    /// one counts.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn save(&self, batch: &[AddressBindings<'_>]) -> Result<(), StoreError> {
        self.save_as(batch, 0).await
    }

    /// Removes bindings that expired at or before `now` (seconds since the Unix epoch), and returns their number. It reads the whole table,
    /// so call it only at the start.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn delete_expired(&self, now: u32) -> Result<u64, StoreError> {
        let deleted = sqlx::query("DELETE FROM location WHERE expires_at <= $1")
            .bind(i64::from(now))
            .execute(self.store.pool())
            .await
            .map_err(|error| self.store.failed("remove expired locations", &error))?;
        Ok(deleted.rows_affected())
    }

    /// The number of saved bindings, including expired ones.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn count(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM location")
            .fetch_one(self.store.pool())
            .await
            .map_err(|error| self.store.failed("count the locations", &error))?;
        Ok(count.cast_unsigned())
    }

    async fn save_as(
        &self,
        batch: &[AddressBindings<'_>],
        full_save: i64,
    ) -> Result<(), StoreError> {
        const DOING: &str = "save locations";
        if batch.is_empty() {
            return Ok(());
        }
        let failed = |error| self.store.failed(DOING, &error);
        let entries = latest_in_order(batch);
        let rows: Vec<_> = entries
            .iter()
            .flat_map(|entry| {
                entry
                    .bindings
                    .iter()
                    .map(|binding| (&*entry.address, binding))
            })
            .collect();
        let mut transaction = self.store.begin(DOING).await?;
        for entries in entries.chunks(ROWS_PER_STATEMENT) {
            delete(&mut transaction, entries).await.map_err(failed)?;
        }
        for rows in rows.chunks(ROWS_PER_STATEMENT) {
            insert(&mut transaction, rows, full_save)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }
}

/// The entries of a batch in the order of their addresses, which is the order of their pages. If an address has several entries, only the
/// latest is kept.
fn latest_in_order<'b, 'a>(batch: &'b [AddressBindings<'a>]) -> Vec<&'b AddressBindings<'a>> {
    let mut entries: Vec<_> = batch.iter().rev().collect();
    // The sort is stable. On the reversed list, the latest entry of an address comes first.
    entries.sort_by(|a, b| a.address.cmp(&b.address));
    entries.dedup_by(|later, kept| later.address == kept.address);
    entries
}

async fn delete(
    transaction: &mut Transaction<'static, Sqlite>,
    entries: &[&AddressBindings<'_>],
) -> Result<(), sqlx::Error> {
    let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM location WHERE address IN (");
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
    full_save: i64,
) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "INSERT INTO location \
         (address, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener, full_save) ",
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
            .push_bind(full_save);
    });
    // A contact that appears twice is a mistake of the caller. It must not make the save of the other entries fail.
    insert.push(
        " ON CONFLICT (address, contact) DO UPDATE SET q = excluded.q, expires_at = excluded.expires_at, \
         call_id = excluded.call_id, cseq = excluded.cseq, path = excluded.path, instance = excluded.instance, \
         user_agent = excluded.user_agent, source = excluded.source, listener = excluded.listener, \
         full_save = excluded.full_save",
    );
    insert.build().execute(&mut **transaction).await?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<(&[u8], BindingRow<'_>), sqlx::Error> {
    let binding = BindingRow {
        contact: Cow::Borrowed(row.try_get(1)?),
        q: number(row, 2)?,
        expires_at: number(row, 3)?,
        call_id: Cow::Borrowed(row.try_get(4)?),
        cseq: number(row, 5)?,
        path: Cow::Borrowed(row.try_get(6)?),
        instance: Cow::Borrowed(row.try_get(7)?),
        user_agent: Cow::Borrowed(row.try_get(8)?),
        source: row
            .try_get::<&str, _>(9)?
            .parse()
            .map_err(|error| unfit(9, error))?,
        listener: Cow::Borrowed(row.try_get(10)?),
    };
    Ok((row.try_get(0)?, binding))
}

fn number<N: TryFrom<i64>>(row: &SqliteRow, column: usize) -> Result<N, sqlx::Error>
where
    N::Error: std::error::Error + Send + Sync + 'static,
{
    N::try_from(row.try_get::<i64, _>(column)?).map_err(|error| unfit(column, error))
}

fn unfit(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_string(),
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_written_in_the_order_of_its_addresses_and_the_later_entry_of_an_address_counts() {
        let entry = |address: &'static [u8], bindings: usize| AddressBindings {
            address: Cow::Borrowed(address),
            bindings: vec![
                BindingRow {
                    contact: Cow::Borrowed(b"sip:a@192.0.2.7"),
                    q: 1000,
                    expires_at: 1,
                    call_id: Cow::default(),
                    cseq: 1,
                    path: Cow::default(),
                    instance: Cow::default(),
                    user_agent: Cow::default(),
                    source: ([192, 0, 2, 7], 5060).into(),
                    listener: Cow::default(),
                };
                bindings
            ],
        };
        let batch = [
            entry(b"c", 1),
            entry(b"a", 1),
            entry(b"c", 2),
            entry(b"b", 0),
        ];
        let written: Vec<(&[u8], usize)> = latest_in_order(&batch)
            .into_iter()
            .map(|entry| (&*entry.address, entry.bindings.len()))
            .collect();
        assert_eq!(written, [(&b"a"[..], 1), (b"b", 0), (b"c", 2)]);
    }
}
