//! Rows that a server sends one by one. Each must arrive in time, however many there are.

use super::lease::within;
use crate::backend::{VisitBinding, VisitName, VisitSubscriber};
use crate::binding::Loaded;
use crate::sql::{Columns, credentials, restore_binding};
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::Error;

/// Passes username and domain, the first two columns, until `visit` breaks. Returns the number of rows.
pub(crate) async fn each_name<R: Columns>(
    mut rows: BoxStream<'_, Result<R, Error>>,
    visit: &mut VisitName<'_>,
) -> Result<u64, Error> {
    let mut shown = 0;
    while let Some(row) = within(rows.try_next()).await? {
        shown += 1;
        if visit(row.text(0)?, row.text(1)?).is_break() {
            break;
        }
    }
    Ok(shown)
}

/// Passes username, domain and hashes; without hashes if they are malformed. Returns the number of rows.
pub(crate) async fn each_subscriber<R: Columns>(
    mut rows: BoxStream<'_, Result<R, Error>>,
    visit: &mut VisitSubscriber<'_>,
) -> Result<u64, Error> {
    let mut shown = 0;
    while let Some(row) = within(rows.try_next()).await? {
        visit(row.text(0)?, row.text(1)?, credentials(&row, 2).ok());
        shown += 1;
    }
    Ok(shown)
}

/// Passes bindings, and counts rows that are none.
pub(crate) async fn each_binding<R: Columns>(
    mut rows: BoxStream<'_, Result<R, Error>>,
    restore: &mut VisitBinding<'_>,
) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    while let Some(row) = within(rows.try_next()).await? {
        restore_binding(&row, restore, &mut loaded);
    }
    Ok(loaded)
}
