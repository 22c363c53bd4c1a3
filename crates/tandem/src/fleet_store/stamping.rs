//! Gives versions to the changes of this node, at a steady pace: the time of a version must be close to that of its REGISTER, even while
//! the store is away.

use super::locations::FleetLocations;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// How often the end of the queue is looked for at the end.
const LOOK: Duration = Duration::from_millis(5);

/// Stamps changes every `interval` until `finished`, and then waits until the store has them all.
pub(crate) async fn stamp_until(
    fleet: Arc<FleetLocations>,
    interval: impl Fn() -> Duration,
    mut finished: oneshot::Receiver<()>,
) {
    loop {
        let last = tokio::select! {
            _ = &mut finished => true,
            () = sleep(interval()) => false,
        };
        fleet.stamp_changes().await;
        if last {
            break;
        }
    }
    while !fleet.outbox.is_empty() {
        sleep(LOOK).await;
    }
}
