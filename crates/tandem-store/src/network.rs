//! What the backends have in common whose database is a server: bounded waits, connections that may break, and names of nodes that are
//! reserved as long as a connection is open.

mod claim;
mod fence;
mod lease;
mod migrate;
mod streams;

pub(crate) use claim::{Claims, Reservation, Reserve};
pub(crate) use fence::{Fence, new_epoch};
pub(crate) use lease::{CONNECT_TIMEOUT, Lease, WHOLE_TABLE_TIMEOUT, within, within_time};
pub(crate) use migrate::{MIGRATION_TIMEOUT, run_migrations};
pub(crate) use streams::{each_binding, each_name, each_subscriber};

use crate::backend::{Fault, IfMissing};
use crate::binding::{AddressBindings, BindingRow};
use crate::error::StoreError;
use sha2::{Digest, Sha256};

/// How long a statement waits for a lock of another transaction, in milliseconds.
pub(crate) const LOCK_TIMEOUT_MS: u64 = 10_000;

/// For a server that does not answer.
pub(crate) const CHECK_SERVER: &str =
    "check that the database server runs, and that host and port in database.url are right";
/// For tables that this version does not know.
pub(crate) const MATCH_VERSION: &str =
    "use the matching version, or set database.url in the configuration to another database";
/// For a database without tables.
const MAKE_TABLES: &str =
    "check database.url; the first start of the server, or `tandem user add`, creates the tables";

/// Where sqlx records the migrations.
pub(crate) const MIGRATION_RECORD: &str = "_sqlx_migrations";
/// The tables that the store creates.
pub(crate) const TABLES: [&str; 12] = [
    MIGRATION_RECORD,
    "alias",
    "call_record",
    "dialog",
    "forwarding",
    "location",
    "node_epoch",
    "node_secret",
    "schema_compatibility",
    "subscriber",
    "subscriber_change",
    "subscriber_version",
];

/// Whether a database, in which these tables of the store are `present`, is to get all of them now.
pub(crate) fn is_new(
    url: &str,
    present: &[String],
    if_missing: IfMissing,
) -> Result<bool, StoreError> {
    if present.iter().any(|table| table == MIGRATION_RECORD) {
        return Ok(false);
    }
    if if_missing != IfMissing::Create {
        return Err(no_tables(url));
    }
    if present.is_empty() {
        return Ok(true);
    }
    Err(foreign_tables(url, present))
}

/// The error about a database in which other programs have tables of the same name.
fn foreign_tables(url: &str, tables: &[String]) -> StoreError {
    StoreError::Schema {
        url: url.to_owned(),
        problem: format!("it has tables of another program: {}", tables.join(", ")),
        remedy: "create a database for tandem alone",
    }
}

/// The error about a database without the store's tables.
fn no_tables(url: &str) -> StoreError {
    StoreError::NoDatabase {
        url: url.to_owned(),
        problem: "it has no tables of tandem".to_owned(),
        remedy: MAKE_TABLES,
    }
}

/// A fault while the database is opened.
pub(crate) fn opening(url: &str, fault: Fault) -> StoreError {
    StoreError::new(url, "open the database", fault)
}

/// Classifies an error that is not the server's answer to a statement. `check_tls` says what to do if no TLS connection is possible.
pub(crate) fn connection_fault(error: sqlx::Error, check_tls: &'static str) -> Fault {
    let problem = match error {
        sqlx::Error::Io(error) => error.to_string(),
        sqlx::Error::PoolTimedOut => format!(
            "no connection became available within {} s",
            CONNECT_TIMEOUT.as_secs()
        ),
        error @ (sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolClosed) => error.to_string(),
        // `begin_as` of the backends. Everything else that is read as one row is there.
        sqlx::Error::RowNotFound => return Fault::NameTaken,
        error @ sqlx::Error::Tls(_) => {
            return Fault::Refused {
                problem: error.to_string(),
                remedy: check_tls,
            };
        }
        error => {
            return Fault::Other {
                problem: error.to_string(),
            };
        }
    };
    Fault::Away {
        problem,
        remedy: CHECK_SERVER,
    }
}

/// Distinguishes the bindings of a table. A key of the database may be shorter than an address of record and a contact.
pub(crate) fn digest(address: &[u8], contact: &[u8]) -> [u8; 32] {
    let address = Sha256::digest(address);
    Sha256::new()
        .chain_update(address)
        .chain_update(contact)
        .finalize()
        .into()
}

/// The bindings of these addresses. If a contact occurs twice, only the later one, because a statement can't write a row twice.
pub(crate) fn distinct<'e>(
    entries: &'e [&'e AddressBindings<'e>],
) -> impl Iterator<Item = (&'e [u8], &'e BindingRow<'e>)> {
    entries.iter().flat_map(|entry| {
        let bindings = entry.bindings.iter().zip(1..);
        let latest = bindings.filter(move |&(binding, next)| {
            let mut later = entry.bindings.iter().skip(next);
            later.all(|other| other.contact != binding.contact)
        });
        latest.map(move |(binding, _)| (&*entry.address, binding))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_address_and_contact_apart() {
        assert_ne!(digest(b"a", b"bc"), digest(b"ab", b"c"));
        assert_eq!(digest(b"a", b"bc"), digest(b"a", b"bc"));
    }
}
