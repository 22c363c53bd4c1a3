//! Lines on their way from the keeper to the reader of a trace, bounded in bytes.
use axum::body::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{mpsc, oneshot};

/// Bytes that may wait for a reader.
const MAX_BYTES: usize = 4 << 20;

/// The keeper's end.
#[derive(Debug)]
pub(super) struct Writing {
    lines: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
    /// Dropped with the keeper's end.
    _ended: oneshot::Sender<()>,
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Reading {
    lines: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
    ended: Option<oneshot::Receiver<()>>,
}

/// The reader is too slow, or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotWritten {
    Slow,
    Gone,
}

pub(super) fn pipe() -> (Writing, Reading) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (ending, ended) = oneshot::channel();
    let waiting = Arc::default();
    let writing = Writing {
        lines: sender,
        waiting: Arc::clone(&waiting),
        _ended: ending,
    };
    let reading = Reading {
        lines: receiver,
        waiting,
        ended: Some(ended),
    };
    (writing, reading)
}

impl Writing {
    /// Adds a line, if there is room.
    pub(super) fn write(&self, line: Bytes) -> Result<(), NotWritten> {
        if self.waiting.load(Relaxed) + line.len() > MAX_BYTES {
            return Err(NotWritten::Slow);
        }
        self.write_last(line)
    }

    /// Adds the last line, for which there is always room.
    pub(super) fn write_last(&self, line: Bytes) -> Result<(), NotWritten> {
        self.waiting.fetch_add(line.len(), Relaxed);
        self.lines.send(line).map_err(|_| NotWritten::Gone)
    }

    /// Whether the reader is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }
}

impl Reading {
    /// Waits until no more lines are added, whether or not they are read.
    pub(crate) fn ended(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.ended.take();
        async move {
            if let Some(ended) = ended {
                // It never gets a value.
                let _ = ended.await;
            }
        }
    }

    /// The next line; `None` after the last one.
    pub(crate) async fn read(&mut self) -> Option<Bytes> {
        let line = self.lines.recv().await?;
        self.waiting.fetch_sub(line.len(), Relaxed);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_does_not_read_gets_what_fits_and_the_last_line() {
        let (writing, mut reading) = pipe();
        let line = || Bytes::from(vec![b'x'; MAX_BYTES / 4]);
        for _ in 0..4 {
            assert_eq!(writing.write(line()), Ok(()));
        }
        assert_eq!(writing.write(line()), Err(NotWritten::Slow));
        assert_eq!(writing.write_last(Bytes::from_static(b"end")), Ok(()));
        assert_eq!(
            reading.read().await.map(|line| line.len()),
            Some(MAX_BYTES / 4)
        );
        drop(writing);
        let mut rest = Vec::new();
        while let Some(line) = reading.read().await {
            rest.push(line.len());
        }
        assert_eq!(rest, [MAX_BYTES / 4, MAX_BYTES / 4, MAX_BYTES / 4, 3]);
    }

    #[test]
    fn a_reader_that_is_gone_is_noticed() {
        let (writing, reading) = pipe();
        assert!(!writing.is_closed());
        drop(reading);
        assert!(writing.is_closed());
        assert_eq!(writing.write(Bytes::new()), Err(NotWritten::Gone));
    }
}
