//! Reads what a server must know before its first request: the secret, credentials, registrations. If the database does not answer, the
//! server says so, is not ready, and tries again.
use super::bindings::{self, ListenerNames};
use super::saved_dialogs::SavedDialogs;
use super::taken_over::TakenOver;
use crate::config::{Configuration, Durability};
use crate::control::trusted_peers::TrustedGroup;
use crate::control::{Control, service_manager, tables};
use crate::services;
use sip_elements::Shared;
use sip_elements::auth::StoredCredentials;
use sip_transport::Listener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{Commits, KamailioOptions, Store, StoreError, StoreOptions};
use tokio::time::sleep;
use tracing::{error, info, warn};

/// Initial and maximum pause before the next attempt.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The database, and what was read from it.
pub(super) struct AtRest {
    pub(super) store: Store,
    pub(super) shared: Shared,
    /// The version of the subscribers with which the credentials cache was filled.
    pub(super) version: u64,
    /// Number of restored bindings.
    pub(super) restored: u64,
    /// What was taken over from a Kamailio.
    pub(super) taken_over: Option<TakenOver>,
    pub(super) dialogs: SavedDialogs,
}

/// Opens the database and fills memory from it. Waits for a database that does not answer, as long as it takes, and for `patience` if
/// another process has the name of this node.
///
/// # Errors
/// Any error that a retry does not help: a wrong URL or password, foreign tables, a node name that stays reserved.
pub(super) async fn read(
    control: &Control,
    listeners: &[Listener],
    patience: Duration,
) -> Result<AtRest, StoreError> {
    let (mut pause, longest) = PAUSES;
    let mut reserved = Reserved::new(control, patience);
    // Each attempt adds the trusted peers of the database to a copy of it.
    let loaded = control.configuration.load_full();
    loop {
        match attempt(control, &loaded, listeners).await {
            Err(error) if reserved.may_end(&error) || error.is_temporary() => {
                error!(%error, "waiting for the database; retrying in {} s", pause.as_secs());
                service_manager::waiting(longest, "Waits for the database, see the log");
                control.obstacle.store(Some(Arc::new(error.to_string())));
            }
            done => {
                control.obstacle.store(None);
                return done;
            }
        }
        sleep(pause).await;
        pause = reserved.pause((pause * 2).min(longest));
    }
}

/// Whether another process has the name of this node. It may be a server whose machine is gone: the database server notices this half a
/// minute later. The kernel notices the end of a process at once, so with `SQLite` it is a server that runs.
struct Reserved {
    patience: Duration,
    since: Option<Instant>,
}

impl Reserved {
    fn new(control: &Control, patience: Duration) -> Self {
        let is_file = control.configuration.load().database.url.file().is_some();
        Self {
            patience: if is_file { Duration::ZERO } else { patience },
            since: None,
        }
    }

    /// Whether this error says that the name is reserved, and it may be free soon.
    fn may_end(&mut self, error: &StoreError) -> bool {
        if !matches!(error, StoreError::InUse { .. }) {
            self.since = None;
            return false;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() < self.patience
    }

    /// The pause before the next attempt, which itself waits for the name.
    const fn pause(&self, otherwise: Duration) -> Duration {
        if self.since.is_some() {
            PAUSES.0
        } else {
            otherwise
        }
    }
}

async fn attempt(
    control: &Control,
    loaded: &Configuration,
    listeners: &[Listener],
) -> Result<AtRest, StoreError> {
    let store = open(loaded).await?;
    let configuration = trust(control, loaded, &store).await?;
    let shared = tables::shared(&configuration, &store.secret().await?);
    let version = warm_credentials(control, &store, &shared).await?;
    services::load(&store, &shared.services).await?;
    let mut taken_over = configuration.kamailio().map(|_| TakenOver::default());
    let restored = if configuration.location.store.redis().is_some() {
        0
    } else {
        restore(control, &store, &shared, listeners, taken_over.as_mut()).await?
    };
    Ok(AtRest {
        shared,
        version,
        restored,
        taken_over,
        dialogs: SavedDialogs::read(control, &store).await?,
        store,
    })
}

/// Opens the database that the configuration names.
async fn open(configuration: &Configuration) -> Result<Store, StoreError> {
    let database = &configuration.database;
    let url = database.url.shown().0;
    info!("reading subscribers and registrations from {url}");
    let options = StoreOptions {
        commits: match configuration.location.durability {
            Durability::Interval => Commits::Written,
            Durability::Commit => Commits::Synced,
        },
        connections: database.connections,
    };
    let Some(tables) = configuration.kamailio() else {
        return Store::open_as(&database.url.0, configuration.node.name.0.clone(), options).await;
    };
    info!(
        "this is Kamailio's database, opened read-only: registrations and calls of this server are in memory"
    );
    let domains = configuration.domains.iter();
    let kamailio = KamailioOptions {
        default_domain: domains
            .map(|domain| domain.0.clone())
            .next()
            .unwrap_or_default(),
        calculate_ha1: tables.calculate_ha1,
        time_zone: tables.time_zone.clone(),
    };
    Store::open_kamailio(&database.url.0, kamailio, options).await
}

/// Puts the configuration in force, with the trusted peers of the database.
async fn trust(
    control: &Control,
    loaded: &Configuration,
    store: &Store,
) -> Result<Arc<Configuration>, StoreError> {
    let mut complete = loaded.clone();
    let group = TrustedGroup::read(loaded, store).await?;
    if let Some(group) = &group {
        group.add_to(&mut complete);
    }
    let complete = Arc::new(complete);
    control.configuration.store(Arc::clone(&complete));
    control.trusted_group.store(group.map(Arc::new));
    Ok(complete)
}

/// Fills the credentials cache up to its capacity. Returns the version of the subscribers from which changes must be followed.
async fn warm_credentials(
    control: &Control,
    store: &Store,
    shared: &Shared,
) -> Result<u64, StoreError> {
    let subscribers = store.subscribers();
    let version = subscribers.version().await?;
    let mut room = control.configuration.load().auth.cache_size;
    let now = control.clock.now();
    let filled = subscribers.for_each(|username, domain, found| {
        if room > 0 {
            room -= 1;
            let known = StoredCredentials {
                ha1_md5: found.ha1_md5,
                ha1_sha256: found.ha1_sha256,
            };
            shared
                .credentials
                .insert(username.as_bytes(), domain.as_bytes(), Some(known), now);
        }
    });
    filled.await?;
    Ok(version)
}

/// Restores the registrations from the database. Returns their number.
async fn restore(
    control: &Control,
    store: &Store,
    shared: &Shared,
    listeners: &[Listener],
    taken_over: Option<&mut TakenOver>,
) -> Result<u64, StoreError> {
    let names = ListenerNames::new(listeners);
    let now = control.clock.now();
    let locations = &shared.locations;
    let found = if let Some(taken_over) = taken_over {
        taken_over.read(store, locations, &names, now).await?
    } else {
        let longest = control.configuration.load().registrar.max_expires;
        bindings::restore(store, locations, &names, (now, longest)).await?
    };
    if found.unreadable > 0 {
        warn!(
            rows = found.unreadable,
            "skipped bindings in the database that could not be read"
        );
    }
    Ok(found.bindings)
}
