//! Reading the database of a Kamailio, whose tables are made by the SQL that Kamailio's packages contain.
//!
//! The test program of a server includes this module and provides, for its `Database`: `of_kamailio` makes a database with the tables,
//! `reader_url` names it for a user who may only read, `allow_reading` adds a table to what he may, `contents` is all that the database contains, `WHOLE_NUMBERS` are types
//! for seconds, and `WRITING_VIEW` replaces the table `address` by a view that writes when it is read.

mod locations;
mod routes;
mod subscribers;
mod unwritten;

use crate::Database;
use crate::kamailio_tables::WRITING_VIEW;
use tandem_store::{KamailioOptions, Store, StoreError, StoreOptions};

/// The options of a Kamailio whose default domain is example.org.
fn options() -> KamailioOptions {
    KamailioOptions {
        default_domain: "example.org".to_owned(),
        calculate_ha1: false,
        time_zone: "UTC".to_owned(),
    }
}

async fn open_with(database: &Database, options: KamailioOptions) -> Result<Store, StoreError> {
    Store::open_kamailio(&database.reader_url(), options, StoreOptions::default()).await
}

async fn open(database: &Database) -> Store {
    open_with(database, options()).await.expect("opens")
}
