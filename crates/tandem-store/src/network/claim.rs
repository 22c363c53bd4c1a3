//! Reserves the names of nodes: a lock of the database server belongs to a connection of its own, and ends with it, however the process ends.
//!
//! If the connection breaks, the server gives up the lock. The reservation then says so and takes the lock again, as soon as it can.

use super::within;
use crate::backend::{Claim, Fault};
use sqlx::Connection;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{error, info};

/// How often the connection is tested. The server gives up the lock of a machine that is gone after several times this period.
const TEST_PERIOD: Duration = Duration::from_secs(5);
/// Pause before the next attempt to reserve a name again.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer to an attempt to reserve a name.
pub(crate) enum Reservation<C> {
    /// The name is reserved as long as this connection is open.
    Granted(C),
    /// Another process holds the name.
    Held { by: String },
}

/// One name of a node, and how to reserve it.
pub(crate) trait Reserve: Send + Sync + 'static {
    /// The connection that holds the lock.
    type Session: Connection + 'static;

    /// Connects and asks for the lock. Waits briefly if it is taken: the server notices the end of another process a little later.
    fn reserve(
        &self,
    ) -> impl Future<Output = Result<Reservation<Self::Session>, Fault>> + Send + '_;
}

/// The names that a store has reserved.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<Vec<JoinHandle<()>>>,
}

impl Claims {
    /// Reserves a name until [`Claims::release`] or the drop of this.
    pub(crate) async fn acquire<R: Reserve>(&self, name: R) -> Result<Claim, Fault> {
        match name.reserve().await? {
            Reservation::Held { by } => Ok(Claim::Held { by }),
            Reservation::Granted(session) => {
                let task = tokio::spawn(keep(name, session));
                self.held
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(task);
                Ok(Claim::Granted)
            }
        }
    }

    /// Gives up all names.
    pub(crate) async fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        for task in held {
            task.abort();
            // The connection is closed when the task has ended.
            let _ = task.await;
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.iter().for_each(JoinHandle::abort);
    }
}

/// Tests the connection, and reserves the name again if it breaks.
async fn keep<R: Reserve>(name: R, mut session: R::Session) {
    loop {
        sleep(TEST_PERIOD).await;
        if let Err(error) = within(session.ping()).await {
            error!(
                %error,
                "lost the connection that reserves this server's name in the database; reserving it again"
            );
            drop(session);
            session = regain(&name).await;
            info!("this server's name is reserved in the database again");
        }
    }
}

async fn regain<R: Reserve>(name: &R) -> R::Session {
    let mut reported = false;
    loop {
        match name.reserve().await {
            Ok(Reservation::Granted(session)) => return session,
            Ok(Reservation::Held { by }) if !reported => {
                error!(
                    %by,
                    "another server has taken this server's name in the database; stop one of them"
                );
                reported = true;
            }
            // The saver and the poll for changed subscribers report a database that is away.
            Ok(Reservation::Held { .. }) | Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}
