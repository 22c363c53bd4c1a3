//! Reserves the names of nodes: a lock of the database server belongs to a connection of its own, and ends with it, however the process ends.
//!
//! If the connection breaks, the server gives up the lock. The reservation then says so and takes the lock again, as soon as it can. If
//! another server was faster, the [`Fence`] keeps this one from writing meanwhile.

use super::fence::Fence;
use super::within;
use crate::backend::{Claim, Fault};
use sqlx::Connection;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// The name is reserved in this epoch as long as the connection is open.
    Granted { session: C, epoch: i64 },
    /// Another process holds the name.
    Held { by: String },
}

/// One name of a node, and how to reserve it.
pub(crate) trait Reserve: Send + Sync + 'static {
    /// The connection that holds the lock.
    type Session: Connection + 'static;

    /// Connects and asks for the lock. Waits briefly if it is taken: the server notices the end of another process a little later. If
    /// `epoch` is still the latest one, it continues; else a new one begins.
    fn reserve(
        &self,
        epoch: Option<i64>,
    ) -> impl Future<Output = Result<Reservation<Self::Session>, Fault>> + Send + '_;
}

/// The name that a store has reserved.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<Vec<JoinHandle<()>>>,
    fence: Arc<Fence>,
}

impl Claims {
    /// Reserves a name until [`Claims::release`] or the drop of this. Call it at most once.
    pub(crate) async fn acquire<R: Reserve>(&self, name: R) -> Result<Claim, Fault> {
        match name.reserve(None).await? {
            Reservation::Held { by } => Ok(Claim::Held { by }),
            Reservation::Granted { session, epoch } => {
                self.fence.open(epoch);
                let task = tokio::spawn(keep(name, session, Arc::clone(&self.fence)));
                self.held
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(task);
                Ok(Claim::Granted)
            }
        }
    }

    /// What every transaction that writes must pass.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
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
async fn keep<R: Reserve>(name: R, mut session: R::Session, fence: Arc<Fence>) {
    loop {
        sleep(TEST_PERIOD).await;
        if let Err(error) = within(session.ping()).await {
            error!(
                %error,
                "lost the connection that reserves this server's name in the database; reserving it again"
            );
            drop(session);
            session = regain(&name, &fence).await;
            info!("this server's name is reserved in the database again");
        }
    }
}

async fn regain<R: Reserve>(name: &R, fence: &Fence) -> R::Session {
    let mut reported = false;
    loop {
        match name.reserve(fence.epoch()).await {
            Ok(Reservation::Granted { session, epoch }) => {
                fence.open(epoch);
                return session;
            }
            Ok(Reservation::Held { by }) => {
                fence.close(&by);
                if !std::mem::replace(&mut reported, true) {
                    error!(
                        %by,
                        "another server has taken this server's name in the database, so this one saves nothing; stop one of them"
                    );
                }
            }
            // The saver and the poll for changed subscribers report a database that is away.
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}
