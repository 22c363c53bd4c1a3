//! Delivers an order to all workers, and reports those that did not take it.
use sip_runtime::SendError;
use std::time::{Duration, Instant};

/// Pause before a full inbox is retried: a running worker empties its inbox in that time.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// What earlier orders left behind.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The last order to drain may not have reached every worker.
    pub(super) is_drain_unfinished: bool,
    /// The server drains to shut down, which cannot be reverted.
    pub(super) is_shutting_down: bool,
    /// Orders about which messages to copy.
    pub(super) traces: u64,
}

/// Some workers did not take an order; the others follow it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} of {workers} (counted from 0) did not take the order, because the inbox stays full or the thread has ended; all other workers follow the order: retry",
    numbered(missing)
)]
pub struct Undelivered {
    /// The numbers of these workers, in ascending order.
    pub missing: Vec<u16>,
    /// Total number of workers.
    pub workers: u16,
}

fn numbered(workers: &[u16]) -> String {
    let noun = if workers.len() == 1 {
        "worker"
    } else {
        "workers"
    };
    let numbers: Vec<String> = workers.iter().map(u16::to_string).collect();
    format!("{noun} {}", numbers.join(", "))
}

/// Calls `send` for each of `workers` workers, and retries those with a full inbox until all have the order or `patience` has passed.
///
/// # Errors
/// The workers that did not take the order.
pub(super) async fn deliver<A>(
    workers: u16,
    patience: Duration,
    mut send: impl FnMut(u16) -> Result<(), SendError<A>>,
) -> Result<(), Undelivered> {
    let deadline = Instant::now() + patience;
    let mut gone = Vec::new();
    let mut full: Vec<u16> = (0..workers).collect();
    loop {
        full.retain(|&worker| match send(worker) {
            Ok(()) => false,
            Err(SendError::Full(_)) => true,
            Err(SendError::Gone(_)) => {
                gone.push(worker);
                false
            }
        });
        if full.is_empty() || Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut missing = [gone, full].concat();
    missing.sort_unstable();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Undelivered { missing, workers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three workers that each refuse the given number of times; returns the orders each took, and the outcome.
    fn given(refusals: [u32; 3], patience: Duration) -> ([u32; 3], Result<(), Vec<u16>>) {
        let mut left = refusals;
        let mut got = [0; 3];
        let send = |worker| {
            let place = usize::from(worker);
            if left[place] == u32::MAX {
                return Err(SendError::Gone(()));
            }
            if left[place] > 0 {
                left[place] -= 1;
                return Err(SendError::Full(()));
            }
            got[place] += 1;
            Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let outcome = runtime.block_on(deliver(3, patience, send));
        (got, outcome.map_err(|undelivered| undelivered.missing))
    }

    #[test]
    fn a_full_inbox_is_tried_again_and_no_worker_gets_the_order_twice() {
        let patience = Duration::from_mins(1);
        assert_eq!(given([0, 3, 1], patience), ([1, 1, 1], Ok(())));
    }

    #[test]
    fn a_worker_that_does_not_take_the_order_in_time_is_named() {
        let patience = Duration::from_millis(20);
        assert_eq!(
            given([0, 1_000_000, 1], patience),
            ([1, 0, 1], Err(vec![1]))
        );
    }

    #[test]
    fn a_worker_that_is_gone_is_not_waited_for() {
        let begun = Instant::now();
        let (got, outcome) = given([u32::MAX, 0, 0], Duration::from_mins(1));
        assert_eq!((got, outcome), ([0, 1, 1], Err(vec![0])));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
