//! A connection that is borrowed from the pool for one operation.

use sqlx::pool::PoolConnection;
use sqlx::{Database, Error, Pool};
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::time::timeout;

/// How long to wait for a free or a new connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for an operation, or for the next row of a stream.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait for an operation that reads a whole table, or changes tables.
pub(crate) const WHOLE_TABLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection of the pool. Unless [`Lease::end`] returns it, it is closed: an operation that was cancelled or timed out may leave it in
/// any state, and the pool would wait for it as long as the kernel does.
pub(crate) struct Lease<DB: Database> {
    connection: PoolConnection<DB>,
    ended: bool,
}

impl<DB: Database> Lease<DB> {
    /// Waits at most [`CONNECT_TIMEOUT`], which is also the limit of the pool.
    pub(crate) async fn of(pool: &Pool<DB>) -> Result<Self, Error> {
        Ok(Self {
            connection: pool.acquire().await?,
            ended: false,
        })
    }

    /// Ends the operation with this result. The connection returns to the pool if it still works.
    pub(crate) fn end<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.ended = !matches!(
            result,
            Err(Error::Io(_)
                | Error::Tls(_)
                | Error::Protocol(_)
                | Error::WorkerCrashed
                // A stream that was broken off: the rest of its rows would come first.
                | Error::Decode(_))
        );
        result
    }
}

impl<DB: Database> Deref for Lease<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Database> DerefMut for Lease<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: Database> Drop for Lease<DB> {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

/// Runs an operation, or waits for the next row, within [`OPERATION_TIMEOUT`].
pub(crate) async fn within<T>(
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within_time(OPERATION_TIMEOUT, operation).await
}

/// Runs an operation within this time. After it, the result is an I/O error.
pub(crate) async fn within_time<T>(
    longest: Duration,
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(longest, operation).await.unwrap_or_else(|_| {
        Err(Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", longest.as_secs()),
        )))
    })
}
