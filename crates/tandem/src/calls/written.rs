//! What the log writes, for tests.
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Subscriber;

/// Keeps what the log writes.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    pub(crate) fn text(&self) -> String {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(written.clone()).expect("UTF-8")
    }

    /// A log whose lines it keeps.
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let written = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_target(false)
            .with_writer(move || written.clone())
            .finish()
    }
}
