//! When a connection ends at the latest.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// The end of a connection, whatever it still reads or writes. A handler that streams its response moves it.
#[derive(Clone, Debug)]
pub struct Lifetime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    end: watch::Sender<Option<Instant>>,
    streams: Notify,
}

impl Lifetime {
    /// A connection that ends in `time`; `None`: never.
    pub fn new(time: Option<Duration>) -> Self {
        let end = time.map(|time| Instant::now() + time);
        Self(Arc::new(Inner {
            end: watch::Sender::new(end),
            streams: Notify::new(),
        }))
    }

    /// Moves the end to `time` from now, which may be earlier or later than before.
    pub fn end_in(&self, time: Duration) {
        self.0.end.send_replace(Some(Instant::now() + time));
    }

    /// The response becomes a stream: its connection no longer counts as one of the open connections, and does not end by itself. The
    /// handler bounds the number of its streams. The response should say `Connection: close`, so that the connection ends with the stream.
    pub fn stream(&self) {
        self.0.end.send_replace(None);
        self.0.streams.notify_one();
    }

    /// Waits until the response becomes a stream.
    pub(crate) async fn streams(&self) {
        self.0.streams.notified().await;
    }

    /// Waits for the end.
    pub(crate) async fn over(&self) {
        let mut end = self.0.end.subscribe();
        loop {
            let at = *end.borrow_and_update();
            let over = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                _ = end.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant as RealInstant;

    #[tokio::test]
    async fn the_end_can_be_moved_in_both_directions() {
        let lifetime = Lifetime::new(Some(Duration::from_millis(20)));
        lifetime.end_in(Duration::from_millis(60));
        let begun = RealInstant::now();
        lifetime.over().await;
        assert!(begun.elapsed() >= Duration::from_millis(60));

        let lifetime = Lifetime::new(None);
        let waiting = tokio::spawn({
            let lifetime = lifetime.clone();
            async move { lifetime.over().await }
        });
        tokio::task::yield_now().await;
        lifetime.end_in(Duration::ZERO);
        let ended = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(ended.is_ok(), "it waits forever");
    }
}
