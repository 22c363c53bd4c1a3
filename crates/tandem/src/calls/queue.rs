//! A queue with a bound on its items and on their bytes. An item counts until it is done with, not only until it is taken.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// The memory that an item takes, in bytes.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

/// What a queue may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// What a queue holds.
#[derive(Debug, Default)]
pub(crate) struct Level {
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Level {
    /// Items that wait or are being worked on.
    pub(crate) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed) as u64
    }

    /// The bytes of these items.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    fn reserve(&self, weight: usize, bounds: Bounds) -> bool {
        let items = self.items.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(weight, Ordering::Relaxed) + weight;
        let fits = items <= bounds.items && bytes <= bounds.bytes;
        if !fits {
            self.release(1, weight);
        }
        fits
    }

    fn release(&self, items: usize, bytes: usize) {
        self.items.fetch_sub(items, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The end that items enter. It never waits and takes no lock.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    items: mpsc::UnboundedSender<T>,
    level: Arc<Level>,
    bounds: Bounds,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            level: Arc::clone(&self.level),
            bounds: self.bounds,
        }
    }
}

/// The end that items leave.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    items: mpsc::UnboundedReceiver<T>,
    level: Arc<Level>,
}

/// Creates a queue that keeps account of its content in `level`.
pub(crate) fn bounded<T: Weight>(bounds: Bounds, level: Arc<Level>) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let sender = Sender {
        items: sender,
        level: Arc::clone(&level),
        bounds,
    };
    let receiver = Receiver {
        items: receiver,
        level,
    };
    (sender, receiver)
}

impl<T: Weight> Sender<T> {
    /// Adds an item, or returns it if the queue is full or its receiver is gone.
    pub(crate) fn try_send(&self, item: T) -> Result<(), T> {
        let weight = item.weight();
        if !self.level.reserve(weight, self.bounds) {
            return Err(item);
        }
        self.items.send(item).map_err(|refused| {
            self.level.release(1, weight);
            refused.0
        })
    }
}

impl<T: Weight> Receiver<T> {
    /// Waits for items and moves at most `most` into `taken`. Returns false once all senders are gone and nothing is left. If the future
    /// is dropped, no item is lost.
    pub(crate) async fn take(&mut self, taken: &mut Vec<T>, most: usize) -> bool {
        self.items.recv_many(taken, most).await > 0
    }

    /// Moves items that wait now into `taken` until it has `most`.
    pub(crate) fn take_waiting(&mut self, taken: &mut Vec<T>, most: usize) {
        while taken.len() < most
            && let Ok(item) = self.items.try_recv()
        {
            taken.push(item);
        }
    }

    /// Makes room: these items are done with.
    pub(crate) fn done(&self, items: &[T]) {
        let bytes = items.iter().map(Weight::weight).sum();
        self.level.release(items.len(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Item(usize);

    impl Weight for Item {
        fn weight(&self) -> usize {
            self.0
        }
    }

    #[tokio::test]
    async fn items_and_bytes_are_bounded_until_the_items_are_done_with() {
        let level = Arc::new(Level::default());
        let bounds = Bounds {
            items: 3,
            bytes: 100,
        };
        let (sender, mut receiver) = bounded(bounds, Arc::clone(&level));
        assert_eq!(sender.try_send(Item(60)), Ok(()));
        assert_eq!(sender.try_send(Item(41)), Err(Item(41)), "too many bytes");
        assert_eq!(sender.try_send(Item(40)), Ok(()));
        assert_eq!(sender.try_send(Item(0)), Ok(()));
        assert_eq!(sender.try_send(Item(0)), Err(Item(0)), "too many items");
        let mut taken = Vec::new();
        assert!(receiver.take(&mut taken, 1).await);
        assert_eq!(sender.try_send(Item(0)), Err(Item(0)), "taken, not done");
        receiver.take_waiting(&mut taken, 2);
        assert_eq!(taken, [Item(60), Item(40)]);
        receiver.done(&taken);
        assert_eq!((level.items(), level.bytes()), (1, 0));
        assert_eq!(sender.try_send(Item(100)), Ok(()));
    }

    #[tokio::test]
    async fn what_was_sent_before_the_senders_went_is_delivered() {
        let bounds = Bounds {
            items: 3,
            bytes: 100,
        };
        let (sender, mut receiver) = bounded(bounds, Arc::default());
        let _ = sender.try_send(Item(1));
        drop(sender);
        let mut taken = Vec::new();
        assert!(receiver.take(&mut taken, 9).await);
        assert!(!receiver.take(&mut taken, 9).await);
        assert_eq!(taken, [Item(1)]);
    }
}
