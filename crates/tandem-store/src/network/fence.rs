//! Keeps a server from writing after another one has taken its name (fencing): each reservation of a name has an epoch in the database,
//! and a transaction that writes fails unless the epoch is still that of this server.

use crate::backend::Fault;
use sqlx::Error;
use std::sync::Arc;
use tokio::sync::watch;

/// The reason of [`Fence::note_refusal`]. Who has changed the epoch is not known yet.
const REFUSED: &str = "the table node_epoch no longer has the epoch of this server, which now reserves its name again";

/// In which epoch a store writes, and whether it has lost the name.
#[derive(Debug, Default)]
pub(crate) struct Fence(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    epoch: Option<i64>,
    taken_by: Option<Arc<str>>,
}

impl Fence {
    /// The epoch in which this store has reserved its name; `None`: it has reserved none.
    pub(crate) fn epoch(&self) -> Option<i64> {
        self.0.borrow().epoch
    }

    /// The epoch in which a transaction may write; `None`: the store has reserved no name, and writes without one.
    ///
    /// # Errors
    /// [`RowNotFound`](Error::RowNotFound) while the name is known to be taken.
    pub(crate) fn pass(&self) -> Result<Option<i64>, Error> {
        let state = self.0.borrow();
        match state.taken_by {
            Some(_) => Err(Error::RowNotFound),
            None => Ok(state.epoch),
        }
    }

    /// Who has taken the name; `None`: it was not taken, as far as this store knows.
    pub(crate) fn taken_by(&self) -> Option<Arc<str>> {
        self.0.borrow().taken_by.clone()
    }

    /// Waits until the name is taken, as far as this store knows.
    pub(crate) async fn taken(&self) {
        let mut states = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = states.wait_for(|state| state.taken_by.is_some()).await;
    }

    /// The name is reserved in this epoch.
    pub(crate) fn open(&self, epoch: i64) {
        self.0.send_replace(State {
            epoch: Some(epoch),
            taken_by: None,
        });
    }

    /// Another session has the name.
    pub(crate) fn close(&self, by: &str) {
        self.0.send_modify(|state| state.taken_by = Some(by.into()));
    }

    /// The database has refused a transaction of this epoch: another one has begun, or the table was changed.
    pub(crate) fn note_refusal(&self, epoch: i64) {
        self.0.send_if_modified(|state| {
            // This server may have the name again since.
            let is_news = state.epoch == Some(epoch) && state.taken_by.is_none();
            if is_news {
                state.taken_by = Some(REFUSED.into());
            }
            is_news
        });
    }
}

/// Draws an epoch. It is random, so that no two reservations have the same one, even if the database is restored from a backup, or a
/// replica takes over that has not received the latest epoch.
pub(crate) fn new_epoch() -> Result<i64, Fault> {
    let random = getrandom::u64().map_err(|error| Fault::Other {
        problem: format!("no random numbers from the operating system: {error}"),
    })?;
    Ok((random >> 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_is_known_to_be_taken_lets_nothing_pass() {
        let fence = Fence::default();
        assert_eq!(fence.pass().expect("reserves none"), None);
        fence.open(7);
        assert_eq!(fence.pass().expect("is open"), Some(7));
        fence.close("another session");
        assert!(matches!(fence.pass(), Err(Error::RowNotFound)));
        fence.taken().await;
        fence.open(8);
        assert_eq!(fence.pass().expect("is open again"), Some(8));
    }

    #[test]
    fn the_refusal_of_an_older_epoch_is_no_news() {
        let fence = Fence::default();
        fence.open(8);
        fence.note_refusal(7);
        assert_eq!(fence.taken_by(), None);
        fence.note_refusal(8);
        assert_eq!(fence.taken_by().as_deref(), Some(REFUSED));
        fence.close("another session");
        fence.note_refusal(8);
        assert_eq!(fence.taken_by().as_deref(), Some("another session"));
    }
}
