//! Records as lines of a file. The file is written on a blocking thread, because a disk may be slow.
use super::file::RecordFile;
use super::writer::Sink;
use crate::calls::SharedEvent;
use crate::calls::line::append_record;
use anyhow::Context as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// A file of JSON lines.
pub(super) struct Lines {
    /// Locked only by the blocking thread of the one operation in progress.
    file: Arc<Mutex<RecordFile>>,
    unsynced_since: Option<Instant>,
}

impl Lines {
    pub(super) fn new(file: RecordFile) -> Self {
        Self {
            file: Arc::new(Mutex::new(file)),
            unsynced_since: None,
        }
    }

    async fn with_file(
        &self,
        work: impl FnOnce(&mut RecordFile) -> io::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let file = Arc::clone(&self.file);
        let done = tokio::task::spawn_blocking(move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut file).with_context(|| file.path().display().to_string())
        });
        done.await.context("the writing thread failed")?
    }
}

impl Sink for Lines {
    async fn write(&mut self, batch: &Arc<[SharedEvent]>) -> anyhow::Result<()> {
        let batch = Arc::clone(batch);
        let written = self.with_file(move |file| {
            let mut lines = Vec::new();
            for event in &*batch {
                append_record(&mut lines, event);
            }
            file.append(&lines)
        });
        written.await?;
        self.unsynced_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    async fn sync(&mut self) -> anyhow::Result<()> {
        if self.unsynced_since.take().is_none() {
            return Ok(());
        }
        let synced = self.with_file(RecordFile::sync).await;
        if synced.is_err() {
            // Tried again after the next interval.
            self.unsynced_since = Some(Instant::now());
        }
        synced
    }

    fn unsynced_since(&self) -> Option<Instant> {
        self.unsynced_since
    }

    async fn reopen(&mut self) -> anyhow::Result<()> {
        self.with_file(RecordFile::reopen).await
    }
}
