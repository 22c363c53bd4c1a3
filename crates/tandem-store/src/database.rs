//! An open database: the backend that its URL selects, and the URL for error messages.

use crate::backend::{Backend, Fault, IfMissing, Opened, StoreOptions};
use crate::error::StoreError;
use crate::url::{Kind, kind, shown_url};
use crate::{mysql, postgres, sqlite};
use std::sync::Arc;

/// A backend and its URL. Clones share the connections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub backend: Arc<dyn Backend>,
    /// Without password.
    pub url: Arc<str>,
}

impl Database {
    /// Opens the database that the URL names and brings its tables up to date. Returns whether it was created, too.
    pub(crate) async fn open(
        url: &str,
        if_missing: IfMissing,
        options: StoreOptions,
    ) -> Result<(Self, bool), StoreError> {
        let opened = match kind(url)? {
            Kind::Sqlite => sqlite::open(url, if_missing, options).await,
            // These futures are large.
            Kind::Postgres => Box::pin(postgres::open(url, if_missing, options)).await,
            Kind::MySql => Box::pin(mysql::open(url, if_missing, options)).await,
        };
        let Opened { backend, created } = opened?;
        let url = shown_url(url).into();
        Ok((Self { backend, url }, created))
    }

    /// Adds to a fault where it happened and what the store was doing.
    pub(crate) fn failed(&self, doing: &'static str) -> impl Fn(Fault) -> StoreError {
        move |fault| StoreError::new(&self.url, doing, fault)
    }
}
