//! The backend for the database of a Kamailio, on PostgreSQL or MySQL: it is read in place, and nothing is written to it.
//!
//! ```text
//! subscriber ─ credentials.rs ─┐
//! location ─── binding.rs ─────┼─ this file: what Tandem takes from each table
//! address ──── networks.rs ────┘
//!     ▲
//! trait Reader     implemented by `postgres` and `mysql`, in sessions that can't write
//! ```
//!
//! What it says about routes is read from whatever database is open (`tables`), and translated here without one:
//!
//! ```text
//! dispatcher ── dispatcher.rs ─▶ gateways and groups ┐
//! mtree, pdt ── prefixes.rs ───▶ rows of prefixes ───┴─▶ sip-routing
//! ```
//!
//! Kamailio records no changes, so there is no version: caches end by their lifetimes. What Tandem itself accepts is in memory only.

mod algorithm;
mod attributes;
mod binding;
mod columns;
mod credentials;
mod destination;
mod dispatcher;
mod dispatcher_problem;
mod findings;
mod mysql;
mod networks;
mod oddities;
mod postgres;
mod prefix_problem;
mod prefixes;
mod reader;
mod time_zone;
mod unwritten;

pub use algorithm::{DispatcherAlgorithm, UnsupportedAlgorithm};
pub use dispatcher::{
    DispatcherOptions, DispatcherProbing, DispatcherTranslation, TranslatedDispatcher,
    dispatcher_group,
};
pub use dispatcher_problem::DispatcherProblem;
pub use findings::Finding;
pub use networks::{TrustedNetwork, TrustedNetworks};
pub use prefix_problem::PrefixProblem;
pub use prefixes::{KamailioPrefixOptions, PrefixTranslation, PrefixValues, TranslatedPrefixes};

use crate::backend::{Backend, Claim, Fault, LocationTable, Opened, StoreOptions, SubscriberTable};
use crate::backend::{Mark, VisitBinding, VisitName, VisitSubscriber};
use crate::binding::{AddressBindings, Loaded};
use crate::error::StoreError;
use crate::node_name::NodeName;
use crate::subscriber::{Existing, Imported, Registrations, StoredCredentials, Subscriber};
use crate::tables::{Select, VisitRow};
use crate::url::{Kind, kind, refused, shown_url};
use async_trait::async_trait;
use credentials::{Reading, Usable};
use oddities::{LocationOddities, SubscriberOddities};
use reader::{LocationRow, Reader, SubscriberRow};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time_zone::TimeZone;
use tracing::{info, warn};

const URL_FORM: &str = "postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE, which is the database of Kamailio";

/// How to read the tables of a Kamailio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KamailioOptions {
    /// The domain of rows without one, in lower case.
    pub default_domain: String,
    /// As `calculate_ha1` of Kamailio's module `auth_db`: passwords are in `password` and not in `ha1`.
    pub calculate_ha1: bool,
    /// The time zone of Kamailio's process, in which it writes times: a name, or an offset such as `+01:00`.
    pub time_zone: String,
}

/// An open database of a Kamailio.
#[derive(Debug)]
struct KamailioBackend {
    reader: Box<dyn Reader>,
    options: KamailioOptions,
    /// Stands for hashes that the database does not have. They are random: with a hash that is known, anyone could answer a challenge.
    no_hash: StoredCredentials,
    /// The locations were read before, and what is odd about them is in the log.
    reported: AtomicBool,
}

/// Opens the database that a URL names, for reading only.
pub(crate) async fn open(
    url: &str,
    options: KamailioOptions,
    store: StoreOptions,
) -> Result<Opened, StoreError> {
    let no_hash = StoredCredentials {
        ha1_md5: random()?,
        ha1_sha256: random()?,
    };
    let zone = TimeZone::new(&shown_url(url), &options.time_zone)?;
    let reader: Box<dyn Reader> = match kind(url)? {
        // These futures are large.
        Kind::Postgres => Box::new(Box::pin(postgres::open(url, &zone, store)).await?),
        Kind::MySql => Box::new(Box::pin(mysql::open(url, &zone, store)).await?),
        Kind::Sqlite => {
            return Err(refused(
                url,
                "Kamailio's tables are read from a database server",
                URL_FORM,
            ));
        }
    };
    let backend = Arc::new(KamailioBackend {
        reader,
        options,
        no_hash,
        reported: AtomicBool::new(false),
    });
    Ok(Opened {
        backend,
        created: false,
    })
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random {
        problem: error.to_string(),
    })?;
    Ok(bytes)
}

impl KamailioBackend {
    fn reading(&self) -> Reading<'_> {
        Reading {
            default_domain: &self.options.default_domain,
            calculate_ha1: self.options.calculate_ha1,
            no_hash: &self.no_hash,
        }
    }

    /// What is odd about the table as a whole: signs of a wrong time zone.
    async fn check_times(&self, now: u32, live: u64) -> Result<(), Fault> {
        let (rows, newest) = self.reader.location_times().await?;
        let zone = &self.options.time_zone;
        if newest > i64::from(now) + 300 {
            warn!(
                "the table location was changed {} s in the future: set database.time_zone (now \"{zone}\") to the time zone of Kamailio",
                newest - i64::from(now)
            );
        } else if rows > 0 && live == 0 {
            warn!(
                "all {rows} rows of the table location have expired: if Kamailio has live registrations, set database.time_zone (now \
                 \"{zone}\") to its time zone"
            );
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for KamailioBackend {
    /// There is no place for it, so each start has its own.
    async fn secret(&self, fresh: &[u8; 32]) -> Result<Vec<u8>, Fault> {
        Ok(fresh.to_vec())
    }

    /// Readers do not disturb each other.
    async fn claim(&self, _: &NodeName) -> Result<Claim, Fault> {
        Ok(Claim::Granted)
    }

    async fn trusted_networks(&self, group: u32) -> Result<TrustedNetworks, Fault> {
        let mut found = TrustedNetworks::default();
        let mut visit = |row: &reader::AddressRow<'_>| found.add(row);
        self.reader.addresses(group, &mut visit).await?;
        Ok(found)
    }

    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault> {
        self.reader.rows(select, visit).await
    }

    async fn close(&self) {
        self.reader.close().await;
    }
}

#[async_trait]
impl SubscriberTable for KamailioBackend {
    async fn add(&self, _: &Subscriber) -> Result<bool, Fault> {
        Err(unwritten::subscribers())
    }

    async fn set_password(&self, _: &Subscriber, _: Registrations) -> Result<bool, Fault> {
        Err(unwritten::subscribers())
    }

    async fn remove(&self, _: &str, _: &str) -> Result<bool, Fault> {
        Err(unwritten::subscribers())
    }

    async fn import(&self, _: &[Subscriber], _: Existing) -> Result<Imported, Fault> {
        Err(unwritten::subscribers())
    }

    /// As [`SubscriberTable::for_each`]: of several rows, the first usable one counts.
    async fn find(&self, username: &str, domain: &str) -> Result<Option<StoredCredentials>, Fault> {
        let reading = self.reading();
        let mut found = None;
        let mut visit = |row: &SubscriberRow<'_>| {
            // MySQL may compare without case.
            if found.is_none() && row.username == username && reading.domain(row) == domain {
                found = reading
                    .credentials(row)
                    .ok()
                    .map(|usable| usable.credentials);
            }
        };
        self.reader.find(username, &mut visit).await?;
        Ok(found)
    }

    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault> {
        self.reader.count_subscribers(domain).await
    }

    async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        visit: &mut VisitName<'_>,
    ) -> Result<u64, Fault> {
        self.reader.list(domain, limit, visit).await
    }

    async fn for_each(&self, visit: &mut VisitSubscriber<'_>) -> Result<u64, Fault> {
        let reading = self.reading();
        let mut odd = SubscriberOddities::default();
        // Hashes of the names so far. If two names had the same, the later one would be looked up when it is used.
        let (mut names, hasher) = (HashSet::new(), RandomState::new());
        let mut take = |row: &SubscriberRow<'_>| {
            if row.username.is_empty() {
                return odd.nameless();
            }
            let domain = reading.domain(row);
            let name = || format!("{}@{domain}", row.username);
            let Usable { credentials, note } = match reading.credentials(row) {
                Ok(usable) => usable,
                Err(unusable) => return odd.unusable(unusable, name),
            };
            if !names.insert(hasher.hash_one((row.username, &*domain))) {
                return odd.duplicate(name);
            }
            odd.note(note, name);
            visit(row.username, &domain, Some(credentials));
        };
        self.reader.subscribers(&mut take).await?;
        for line in odd.warnings() {
            warn!("{line}");
        }
        for line in odd.remarks() {
            info!("{line}");
        }
        Ok(names.len() as u64)
    }

    /// Kamailio counts no changes. The question shows whether the server answers.
    async fn version(&self) -> Result<u64, Fault> {
        self.reader.ping().await?;
        Ok(0)
    }

    async fn changes(&self, _: u64, _: u64) -> Result<Vec<(String, String)>, Fault> {
        Ok(Vec::new())
    }

    async fn registrations_ended(&self, _: u64, _: u64) -> Result<Vec<(String, String)>, Fault> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl LocationTable for KamailioBackend {
    async fn load(&self, now: u32, restore: &mut VisitBinding<'_>) -> Result<Loaded, Fault> {
        let mut loaded = Loaded::default();
        let mut odd = LocationOddities::default();
        let mut live = 0;
        let mut take = |row: &LocationRow<'_>| {
            live += 1;
            match binding::binding(row, &self.options.default_domain) {
                Ok((address, binding)) => {
                    restore(address.as_bytes(), &binding);
                    loaded.bindings += 1;
                }
                Err(unusable) => {
                    loaded.unreadable += u64::from(unusable == binding::Unusable::Unreadable);
                    odd.unusable(unusable, || {
                        format!("{}, contact {}", row.username, row.contact)
                    });
                }
            }
        };
        self.reader.locations(now, &mut take).await?;
        if !self.reported.swap(true, Ordering::Relaxed) {
            for line in odd.warnings() {
                warn!("{line}");
            }
            self.check_times(now, live).await?;
        }
        Ok(loaded)
    }

    /// Bindings that Tandem accepts are in memory only.
    async fn save(&self, _: &[&AddressBindings<'_>], _: Mark<'_>) -> Result<(), Fault> {
        Ok(())
    }

    async fn last_full_save(&self, _: &NodeName) -> Result<i64, Fault> {
        Ok(0)
    }

    async fn delete_other_saves(&self, _: Mark<'_>) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn delete_expired(&self, _: &NodeName, _: u32) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn count_bindings(&self) -> Result<u64, Fault> {
        Ok(self.reader.location_times().await?.0)
    }
}
