//! The columns of aliases and call forwarding.

use super::Columns;
use crate::service::{Alias, Forwarding, SubscriberForwarding};
use sqlx::Error;

/// Reads the columns `username, domain, subscriber`.
pub(crate) fn alias(row: &impl Columns) -> Result<Alias, Error> {
    Ok(Alias {
        username: row.text(0)?.to_owned(),
        domain: row.text(1)?.to_owned(),
        subscriber: row.text(2)?.to_owned(),
    })
}

/// Reads [`Forwarding`], beginning at `column`: `always, busy, no_answer, no_answer_seconds, not_registered`.
pub(crate) fn forwarding(row: &impl Columns, column: usize) -> Result<Forwarding, Error> {
    let text = |offset| row.text(column + offset).map(str::to_owned);
    Ok(Forwarding {
        always: text(0)?,
        busy: text(1)?,
        no_answer: text(2)?,
        no_answer_seconds: row.number(column + 3)?,
        not_registered: text(4)?,
    })
}

/// Reads the columns `username, domain`, and [`forwarding`].
pub(crate) fn subscriber_forwarding(row: &impl Columns) -> Result<SubscriberForwarding, Error> {
    Ok(SubscriberForwarding {
        username: row.text(0)?.to_owned(),
        domain: row.text(1)?.to_owned(),
        forwarding: forwarding(row, 2)?,
    })
}
