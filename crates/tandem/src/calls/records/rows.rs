//! Records as rows of the database.
use super::writer::Sink;
use crate::calls::SharedEvent;
use crate::calls::line::{ended_by, id, milliseconds, text};
use crate::config::Keyword;
use sip_dialog::{CallEvent, Change};
use sip_transport::{Protocol, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_store::{CallRow, Store};
use tokio::time::Instant;

/// The table of records.
pub(super) struct RecordRows {
    store: Store,
}

impl RecordRows {
    pub(super) const fn new(store: Store) -> Self {
        Self { store }
    }
}

impl Sink for RecordRows {
    async fn write(&mut self, batch: &Arc<[SharedEvent]>) -> anyhow::Result<()> {
        let rows: Vec<CallRow<'_>> = batch.iter().map(|event| row(event)).collect();
        Ok(self.store.records().append(&rows).await?)
    }

    /// A commit is as durable as the database makes it.
    async fn sync(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn unsynced_since(&self) -> Option<Instant> {
        None
    }

    async fn reopen(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

fn row(event: &CallEvent) -> CallRow<'_> {
    let call = &*event.call;
    let peer = |(address, protocol): (SocketAddr, Protocol)| (address, protocol.word());
    let ended = call.ended.unwrap_or(call.started);
    CallRow {
        id: id(call).into(),
        call_id: text(&call.call_id),
        from_uri: text(&call.from),
        from_tag: text(&call.from_tag),
        to_uri: text(&call.to),
        to_tag: text(&call.to_tag),
        request_uri: text(&call.request_uri),
        identity: text(&call.identity),
        source: peer((call.source, call.source_transport)),
        destination: call.destination.map(peer),
        attempts: call.attempts,
        started: at(call.started),
        ringing: call.ringing.map(at),
        answered: call.answered.map(at),
        ended: at(ended),
        status: call.status,
        ended_by: match event.change {
            Change::Ended(ended) => ended_by(ended),
            Change::Started | Change::Ringing | Change::Answered => "",
        }
        .into(),
        reason: text(&call.reason),
    }
}

fn at(time: Time) -> i64 {
    i64::try_from(milliseconds(time)).unwrap_or(i64::MAX)
}
