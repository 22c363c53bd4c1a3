//! Deletes old records from the database.
use crate::control::Control;
use std::sync::Arc;
use std::time::Duration;
use tandem_store::{Store, StoreError};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

/// How often old records are deleted.
const EVERY: Duration = Duration::from_secs(600);
/// Records deleted by one statement: others wait for the database that long.
const AT_ONCE: u32 = 1_000;
/// The pause between two statements.
const PAUSE: Duration = Duration::from_millis(50);

/// Deletes records that are older than `records.keep`, until the task is aborted.
pub(super) async fn run(control: Arc<Control>, store: Store) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match delete_old(&control, &store).await {
            Ok(0) => {}
            Ok(deleted) => info!(
                deleted,
                "deleted call records that are older than `records.keep`"
            ),
            Err(error) => warn!(%error, "cannot delete old call records"),
        }
    }
}

async fn delete_old(control: &Control, store: &Store) -> Result<u64, StoreError> {
    let keep = control.configuration.load().records.keep;
    let before = control
        .clock
        .now()
        .unix_seconds()
        .saturating_sub(keep.as_secs());
    let before = i64::try_from(before * 1_000).unwrap_or(i64::MAX);
    let mut all = 0;
    loop {
        let deleted = store.records().delete_ended_before(before, AT_ONCE).await?;
        all += deleted;
        if deleted < u64::from(AT_ONCE) {
            return Ok(all);
        }
        sleep(PAUSE).await;
    }
}
