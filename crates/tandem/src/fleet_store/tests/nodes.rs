//! Nodes without workers: the test registers phones.
use super::store::Store;
use crate::config::Configuration;
use crate::control::tables;
use crate::fleet_store::locations::id_of;
use crate::fleet_store::{
    FleetCounters, FleetLocations, FleetOptions, Ignored, Link, LinkOptions, stamp_until,
};
use crate::serve::ListenerNames;
use sip_elements::location::{Binding, Merge, Merged};
use sip_runtime::Clock;
use sip_transport::{ConnectionId, ListenerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);

/// What differs between nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) ahead: Duration,
    pub(super) waits_for_store: bool,
    pub(super) most_bindings: usize,
    pub(super) queue_bytes: usize,
    pub(super) sweep: Duration,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            ahead: Duration::ZERO,
            waits_for_store: false,
            most_bindings: 100_000,
            queue_bytes: 1 << 20,
            sweep: Duration::from_millis(20),
        }
    }
}

/// A node.
pub(super) struct Node {
    pub(super) fleet: Arc<FleetLocations>,
    pub(super) saved: Arc<AtomicU64>,
    sweep: Duration,
    link: Option<JoinHandle<()>>,
    stamping: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Node {
    /// A node that is not connected.
    pub(super) fn alone(instance: &str, kind: Kind) -> Self {
        let mut configuration = Configuration::default();
        configuration.limits.bindings = kind.most_bindings;
        configuration.auth.nonce_slots = 1_024;
        configuration.bans.table = 1_024;
        let mut shared = tables::shared(&configuration, &[7; 32]);
        shared.locations = shared.locations.announcing_all();
        let fleet = Arc::new(FleetLocations::new(FleetOptions {
            instance: instance.to_owned(),
            process: format!("{:?}", Instant::now()),
            shared: Arc::new(shared),
            names: ListenerNames::new(&[]),
            clock: Clock::start(),
            ahead: kind.ahead,
            longest: LONGEST,
            most_bindings: kind.most_bindings,
            queue_bytes: kind.queue_bytes,
            waits_for_store: kind.waits_for_store,
            counters: Arc::default(),
        }));
        let saved = Arc::new(AtomicU64::new(0));
        let (noted, told) = (Arc::clone(&saved), Arc::clone(&fleet));
        fleet.report_to(move |save, room| {
            noted.store(save, Ordering::Relaxed);
            told.locations().note_saved(save, room);
        });
        Self {
            fleet,
            saved,
            sweep: kind.sweep,
            link: None,
            stamping: None,
        }
    }

    /// A node that has loaded all bindings and exchanges changes.
    pub(super) async fn start(instance: &str, kind: Kind, store: &Store) -> Self {
        let mut node = Self::alone(instance, kind);
        let mut link = node.new_link(store);
        link.load().await.expect("the store works");
        node.link = Some(tokio::spawn(link.run()));
        node.stamp();
        node.until("it is connected", |node| node.counters().is_connected())
            .await;
        node
    }

    pub(super) fn new_link(&self, store: &Store) -> Link {
        let options = LinkOptions {
            server: store.server(),
            shown: "redis".to_owned(),
            prefix: "test".to_owned(),
            epoch: format!("{:?}", Instant::now()),
            sweep: self.sweep,
            save_time: Duration::from_millis(500),
        };
        Link::new(Arc::clone(&self.fleet), options)
    }

    fn stamp(&mut self) {
        let (finish, finished) = oneshot::channel();
        let interval = || Duration::from_millis(10);
        let stamping = stamp_until(Arc::clone(&self.fleet), interval, finished);
        self.stamping = Some((finish, tokio::spawn(stamping)));
    }

    /// Ends the node after its last changes are in the store.
    pub(super) async fn finish(mut self) {
        let (finish, stamping) = self.stamping.take().expect("it runs");
        finish.send(()).expect("it runs");
        stamping.await.expect("it ends");
        self.cut();
    }

    /// Cuts the node off.
    pub(super) fn cut(&mut self) {
        if let Some(link) = self.link.take() {
            link.abort();
        }
        self.fleet.counters.set_connected(false);
    }

    /// Connects the node again.
    pub(super) fn connect(&mut self, store: &Store) {
        self.link = Some(tokio::spawn(self.new_link(store).run()));
    }

    pub(super) fn counters(&self) -> &FleetCounters {
        &self.fleet.counters
    }

    pub(super) fn ignored(&self, why: Ignored) -> u64 {
        self.counters().ignored(why)
    }

    /// A phone registers here.
    pub(super) fn register(&self, user: &str, cseq: u32) {
        self.register_contact(user, "192.0.2.7", cseq);
    }

    pub(super) fn register_contact(&self, user: &str, host: &str, cseq: u32) {
        self.change(user, host, cseq);
        let address = address(user).into_boxed_slice();
        let records = self.fleet.stamp(&[address], self.fleet.now());
        self.fleet.outbox.add(records, 0);
    }

    /// As [`register`](Self::register), without a version.
    pub(super) fn change(&self, user: &str, host: &str, cseq: u32) {
        let contact = format!("sip:{user}@{host}");
        let expires_at = u32::try_from(self.fleet.now().unix_seconds()).expect("a time") + 600;
        let binding = binding(&contact, expires_at, cseq);
        let change = Merge {
            binding: Some(binding),
            selects: |known: &Binding<'_>| id_of(known) == id_of(&binding),
            expects: |_: Option<&Binding<'_>>| true,
        };
        let locations = self.fleet.locations();
        let done = locations.merge(&address(user), self.fleet.now(), &change, |_| ());
        assert_eq!(done, Merged::Done(()));
    }

    /// The operator removes the bindings of a user, which workers announce.
    pub(super) fn remove(&self, user: &str) {
        let removed = self
            .fleet
            .locations()
            .remove(&address(user), self.fleet.now());
        assert_eq!(removed, 1, "{user} was registered");
    }

    /// The `CSeq` of each binding of a user.
    pub(super) fn found(&self, user: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let visit = |binding: &Binding<'_>| found.push(binding.cseq);
        self.fleet
            .locations()
            .visit(&address(user), self.fleet.now(), visit);
        found.sort_unstable();
        found
    }

    /// Everything that is registered here.
    pub(super) fn everything(&self) -> Vec<(Vec<u8>, Vec<u8>, u32)> {
        let mut all = Vec::new();
        self.fleet
            .locations()
            .for_each(self.fleet.now(), |address, binding| {
                all.push((address.to_vec(), binding.contact.to_vec(), binding.cseq));
            });
        all.sort_unstable();
        all
    }

    /// Waits until something is true.
    pub(super) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is(self) {
            assert!(Instant::now() < deadline, "{}: {what}", self.fleet.instance);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until a user has these bindings here.
    pub(super) async fn until_found(&self, user: &str, cseqs: &[u32]) {
        let what = format!("{user} has {cseqs:?}, not {:?}", self.found(user));
        self.until(&what, |node| node.found(user) == cseqs).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cut();
        if let Some((_, stamping)) = self.stamping.take() {
            stamping.abort();
        }
    }
}

/// The address of record of a user.
pub(super) fn address(user: &str) -> Vec<u8> {
    format!("{user}@example.org").into_bytes()
}

pub(super) fn binding(contact: &str, expires_at: u32, cseq: u32) -> Binding<'_> {
    Binding {
        contact: contact.as_bytes(),
        q: 1_000,
        expires_at,
        call_id: b"843817637684230@998sdasdh09",
        cseq,
        path: b"<sip:edge.example.org;lr;e=0123456789abcdef>",
        instance: b"",
        user_agent: b"Phone/1.0",
        source: ([192, 0, 2, 7], 5060).into(),
        listener: ListenerId(0),
        connection: ConnectionId::NONE,
    }
}
