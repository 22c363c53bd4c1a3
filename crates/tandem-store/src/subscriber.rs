//! Saved subscribers: who may register and call, with HA1 for both algorithms and never a clear-text password.
//!
//! Each transaction that changes subscribers also records the changes under a new version. A running server reads the version about every
//! second and asks what has changed since. `tandem user` and a server that caches credentials therefore need no channel between them.

mod change;
mod import;

pub use change::{Changed, SubscriberChanges};
pub use import::{Existing, Imported};

use crate::{Store, StoreError};
use futures_util::TryStreamExt;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::fmt;
use std::ops::ControlFlow;

/// What the store keeps of a password: H(username:domain:password), with the domain as realm (RFC 7616 section 3.4.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredCredentials {
    /// HA1 with MD5.
    pub ha1_md5: [u8; 16],
    /// HA1 with SHA-256.
    pub ha1_sha256: [u8; 32],
}

/// Prints no hashes: for digest, an HA1 is as good as the password.
impl fmt::Debug for StoredCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("StoredCredentials")
    }
}

/// One subscriber. The store keeps names as given: the caller passes the canonical form (domain in lower case).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// User part of the address of record.
    pub username: String,
    /// Domain of the address of record, which is also the digest realm.
    pub domain: String,
    /// The hashes kept instead of the password.
    pub credentials: StoredCredentials,
}

/// What happens to a subscriber's registrations when the password changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registrations {
    /// They end, so that devices with the old password receive no more calls.
    End,
    /// They stay until they expire.
    Keep,
}

/// The subscribers of a [`Store`].
#[derive(Clone, Copy, Debug)]
pub struct Subscribers<'s> {
    store: &'s Store,
}

impl<'s> Subscribers<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self { store }
    }

    /// Adds a subscriber.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the name exists; the existing subscriber is not changed. Or any error of the database.
    pub async fn add(&self, subscriber: &Subscriber) -> Result<(), StoreError> {
        const DOING: &str = "add a subscriber";
        let Subscriber {
            username,
            domain,
            credentials,
        } = subscriber;
        let mut transaction = self.store.begin(DOING).await?;
        let added = sqlx::query(
            "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) VALUES ($1, $2, $3, $4) ON CONFLICT (username, domain) DO NOTHING",
        )
        .bind(username)
        .bind(domain)
        .bind(credentials.ha1_md5.as_slice())
        .bind(credentials.ha1_sha256.as_slice())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.store.failed(DOING, &error))?;
        if added.rows_affected() == 0 {
            return Err(StoreError::Exists {
                address: format!("{username}@{domain}"),
            });
        }
        self.record_and_commit(transaction, &[(username, domain)], DOING)
            .await
    }

    /// Changes a subscriber's password. Registrations made with the old one end or stay, in the same transaction. Running servers see this
    /// in [`Subscribers::registrations_ended`].
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the name does not exist, or any error of the database.
    pub async fn set_password(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<(), StoreError> {
        const DOING: &str = "change a password";
        let Subscriber {
            username,
            domain,
            credentials,
        } = subscriber;
        let mut transaction = self.store.begin(DOING).await?;
        let changed = sqlx::query("UPDATE subscriber SET ha1_md5 = $1, ha1_sha256 = $2 WHERE username = $3 AND domain = $4")
            .bind(credentials.ha1_md5.as_slice())
            .bind(credentials.ha1_sha256.as_slice())
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.store.failed(DOING, &error))?;
        if changed.rows_affected() == 0 {
            return Err(missing(username, domain));
        }
        if registrations == Registrations::End {
            sqlx::query("DELETE FROM location WHERE address = $1")
                .bind(format!("{username}@{domain}").into_bytes())
                .execute(&mut *transaction)
                .await
                .map_err(|error| self.store.failed(DOING, &error))?;
        }
        let changed = [(username.as_str(), domain.as_str())];
        self.record(&mut transaction, &changed, registrations, DOING)
            .await?;
        transaction
            .commit()
            .await
            .map_err(|error| self.store.failed(DOING, &error))
    }

    /// Removes a subscriber, but not its bindings.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the name does not exist, or any error of the database.
    pub async fn remove(&self, username: &str, domain: &str) -> Result<(), StoreError> {
        const DOING: &str = "remove a subscriber";
        let mut transaction = self.store.begin(DOING).await?;
        let removed = sqlx::query("DELETE FROM subscriber WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.store.failed(DOING, &error))?;
        if removed.rows_affected() == 0 {
            return Err(missing(username, domain));
        }
        self.record_and_commit(transaction, &[(username, domain)], DOING)
            .await
    }

    /// The credentials of one subscriber; `None` if the name does not exist.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<StoredCredentials>, StoreError> {
        const DOING: &str = "look a subscriber up";
        let row = sqlx::query(
            "SELECT ha1_md5, ha1_sha256 FROM subscriber WHERE username = $1 AND domain = $2",
        )
        .bind(username)
        .bind(domain)
        .fetch_optional(self.store.pool())
        .await
        .map_err(|error| self.store.failed(DOING, &error))?;
        row.map(|row| credentials(&row, 0).map_err(|error| self.store.failed(DOING, &error)))
            .transpose()
    }

    /// The number of subscribers, in total or of one domain.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn count(&self, domain: Option<&str>) -> Result<u64, StoreError> {
        let query = match domain {
            None => sqlx::query_scalar("SELECT COUNT(*) FROM subscriber"),
            Some(domain) => {
                sqlx::query_scalar("SELECT COUNT(*) FROM subscriber WHERE domain = $1").bind(domain)
            }
        };
        let count: i64 = query
            .fetch_one(self.store.pool())
            .await
            .map_err(|error| self.store.failed("count the subscribers", &error))?;
        Ok(count.cast_unsigned())
    }

    /// Passes at most `limit` subscribers (username, domain) to `visit`, ordered by username, until it breaks. Returns how many it passed.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        mut visit: impl FnMut(&str, &str) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        let failed = |error| self.store.failed("list the subscribers", &error);
        let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let query = match domain {
            None => sqlx::query("SELECT username, domain FROM subscriber ORDER BY username, domain LIMIT $1").bind(limit),
            Some(domain) => sqlx::query(
                "SELECT username, domain FROM subscriber WHERE domain = $2 ORDER BY username, domain LIMIT $1",
            )
            .bind(limit)
            .bind(domain),
        };
        let mut rows = query.fetch(self.store.pool());
        let mut shown = 0;
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            shown += 1;
            let username = row.try_get::<&str, _>(0).map_err(failed)?;
            let domain = row.try_get::<&str, _>(1).map_err(failed)?;
            if visit(username, domain).is_break() {
                break;
            }
        }
        Ok(shown)
    }

    /// Passes every subscriber (username, domain, credentials) to `visit`, in no particular order, to warm a cache at the start. Returns
    /// their number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn for_each(
        &self,
        mut visit: impl FnMut(&str, &str, StoredCredentials),
    ) -> Result<u64, StoreError> {
        let failed = |error| self.store.failed("read the subscribers", &error);
        let mut rows = sqlx::query("SELECT username, domain, ha1_md5, ha1_sha256 FROM subscriber")
            .fetch(self.store.pool());
        let mut shown = 0;
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            let username = row.try_get(0).map_err(failed)?;
            let domain = row.try_get(1).map_err(failed)?;
            visit(username, domain, credentials(&row, 2).map_err(failed)?);
            shown += 1;
        }
        Ok(shown)
    }
}

fn missing(username: &str, domain: &str) -> StoreError {
    StoreError::Missing {
        address: format!("{username}@{domain}"),
    }
}

/// Reads the two hashes, beginning at `column`.
fn credentials(row: &SqliteRow, column: usize) -> Result<StoredCredentials, sqlx::Error> {
    Ok(StoredCredentials {
        ha1_md5: hash(row, column)?,
        ha1_sha256: hash(row, column + 1)?,
    })
}

fn hash<const N: usize>(row: &SqliteRow, column: usize) -> Result<[u8; N], sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|error| sqlx::Error::ColumnDecode {
        index: column.to_string(),
        source: Box::new(error),
    })
}
