//! Reserves the names of nodes: a lock of the database server belongs to a connection of its own, and ends with it, however the process ends.
//!
//! If the connection breaks, the server gives up the lock. The reservation then says so and takes the lock again, as soon as it can. If
//! another server was faster, the [`Fence`] keeps this one from writing meanwhile. If the epoch in the database changes although no other
//! server has the lock, as when a backup is restored, the reservation begins a new epoch.

use super::fence::Fence;
use super::within;
use crate::backend::{Claim, Fault};
use sqlx::Connection;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

/// How often the connection is tested. The server gives up the lock of a machine that is gone after several times this period.
const TEST_PERIOD: Duration = Duration::from_secs(5);
/// Pause before the next attempt to reserve a name again.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer to an attempt to reserve a name.
pub(crate) enum Reservation {
    /// The name is reserved in this epoch as long as the session is open.
    Granted { epoch: i64 },
    /// Another session holds the name.
    Held { by: String },
}

/// One name of a node, and how to reserve it.
pub(crate) trait Reserve: Send + Sync + 'static {
    /// The connection that holds the lock.
    type Session: Connection + 'static;

    /// Opens a session.
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Fault>> + Send;

    /// Asks for the lock, which the session may have already. Waits briefly if it is taken: the server notices the end of another process a
    /// little later. If `epoch` is still the latest one, it continues; else a new one begins.
    fn reserve(
        &self,
        session: &mut Self::Session,
        epoch: Option<i64>,
    ) -> impl Future<Output = Result<Reservation, Fault>> + Send;
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
        match reserve(&name, None).await? {
            (_, Reservation::Held { by }) => Ok(Claim::Held { by }),
            (session, Reservation::Granted { epoch }) => {
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

/// Reserves a name in a session of its own.
async fn reserve<R: Reserve>(
    name: &R,
    epoch: Option<i64>,
) -> Result<(R::Session, Reservation), Fault> {
    let mut session = name.connect().await?;
    let reservation = name.reserve(&mut session, epoch).await?;
    Ok((session, reservation))
}

/// Tests the connection, and reserves the name again if it breaks, or if the database refuses a transaction.
async fn keep<R: Reserve>(name: R, mut session: R::Session, fence: Arc<Fence>) {
    loop {
        if timeout(TEST_PERIOD, fence.taken()).await.is_ok() {
            error!(
                "the database refuses the changes of this server, because table node_epoch has another epoch of its name; reserving it again"
            );
            session = renew(&name, session, &fence).await;
        } else if let Err(error) = within(session.ping()).await {
            error!(
                %error,
                "lost the connection that reserves this server's name in the database; reserving it again"
            );
            drop(session);
            session = regain(&name, &fence).await;
        } else {
            continue;
        }
        info!("this server's name is reserved in the database again");
    }
}

/// Reserves the name again: in this session, so that it keeps the lock, or in another one if this one has lost it.
async fn renew<R: Reserve>(name: &R, mut session: R::Session, fence: &Fence) -> R::Session {
    match name.reserve(&mut session, fence.epoch()).await {
        Ok(Reservation::Granted { epoch }) => {
            fence.open(epoch);
            session
        }
        Ok(Reservation::Held { .. }) | Err(_) => {
            drop(session);
            regain(name, fence).await
        }
    }
}

async fn regain<R: Reserve>(name: &R, fence: &Fence) -> R::Session {
    let mut reported = false;
    loop {
        match reserve(name, fence.epoch()).await {
            Ok((session, Reservation::Granted { epoch })) => {
                fence.open(epoch);
                return session;
            }
            Ok((_, Reservation::Held { by })) => {
                fence.close(&by);
                if !std::mem::replace(&mut reported, true) {
                    error!(
                        %by,
                        "another session has this server's name in the database, so this server saves nothing; if it is that of another \
                         server, stop one of them"
                    );
                }
            }
            // The saver and the poll for changed subscribers report a database that is away.
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}
