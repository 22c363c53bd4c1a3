//! A resolver in a thread of its own (feature `resolver`).

use crate::calls::{Lookup, Resolve};
use sip_resolver::{Resolver, Settings};
use sip_transport::selection::Reach;
use std::sync::Arc;
use std::{fmt, io};
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc};

/// Lookups that may wait. Further ones are answered without candidates.
const WAITING: usize = 1_024;
/// Lookups at a time.
const AT_ONCE: usize = 64;

/// Resolves names by DNS and `/etc/hosts`, in a thread of its own that ends with this value.
pub struct SystemResolver(mpsc::Sender<Lookup>);

impl SystemResolver {
    /// Starts the thread, for a stack with this reach ([`Reach::of`] its listeners).
    ///
    /// # Errors
    /// The machine has no threads or descriptors left, or the system's configuration of name servers cannot be used.
    pub fn start(settings: &Settings, reach: Reach) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let resolver = {
            let _entered = runtime.enter();
            Resolver::new(settings, reach).map_err(io::Error::other)?
        };
        let (queue, lookups) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("sip-resolver".to_owned())
            .spawn(move || runtime.block_on(serve(Arc::new(resolver), lookups)))?;
        Ok(Self(queue))
    }
}

impl Resolve for SystemResolver {
    fn resolve(&mut self, lookup: Lookup) {
        // A lookup that is dropped counts as answered.
        let _ = self.0.try_send(lookup);
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemResolver")
    }
}

/// Answers lookups until the user agent drops its end of the queue.
async fn serve(resolver: Arc<Resolver>, mut lookups: mpsc::Receiver<Lookup>) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(lookup) = lookups.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let resolver = Arc::clone(&resolver);
        tokio::spawn(async move {
            let located = resolver.locate(lookup.destination(), lookup.seed()).await;
            lookup.answer(located.candidates);
            drop(permit);
        });
    }
}
