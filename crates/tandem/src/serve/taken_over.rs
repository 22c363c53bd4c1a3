//! Takes over the registrations at a Kamailio, and leaves alone what phones have registered or removed here since.
//!
//! | in memory, with the contact of the row | the row is new, or has changed | the row is as before |
//! | --- | --- | --- |
//! | nothing | is taken over | was removed here, and stays away |
//! | the binding that was taken over from the row | replaces it | nothing to do |
//! | another binding | was registered here, and stays | nothing to do |
use super::bindings::{ListenerNames, in_memory};
use sip_elements::location::{Binding, Locations};
use sip_transport::Time;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use tandem_store::{Loaded, Store, StoreError};

/// The rows of `location` that were read, until the bindings of their contacts end.
#[derive(Debug, Default)]
pub(super) struct TakenOver {
    /// By a hash of address of record and contact. If two rows had the same, the later one would not be taken over.
    rows: HashMap<u64, Row>,
    hasher: RandomState,
}

/// A row as it was read last.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Equal to that of the binding in memory if the binding was taken over from this row.
    version: u64,
    /// When the binding in memory ends by itself, in seconds since the Unix epoch.
    until: u32,
}

impl TakenOver {
    /// Takes over the bindings that Kamailio has written since the last time.
    ///
    /// # Errors
    /// Any database error. The bindings read so far are taken over.
    pub(super) async fn read(
        &mut self,
        store: &Store,
        locations: &Locations,
        names: &ListenerNames,
        now: Time,
    ) -> Result<Loaded, StoreError> {
        let seconds = u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX);
        self.rows.retain(|_, row| row.until > seconds);
        let at_rest = store.locations();
        let loaded = at_rest.load_all(seconds, |address, row| {
            self.take(locations, address, &in_memory(row, names, u32::MAX), now);
        });
        loaded.await
    }

    fn take(&mut self, locations: &Locations, address: &[u8], binding: &Binding<'_>, now: Time) {
        let hasher = &self.hasher;
        let key = hasher.hash_one((address, binding.contact));
        let read = version(hasher, binding);
        let last = self.rows.get(&key).map(|row| row.version);
        if last == Some(read) {
            return;
        }
        let until = locations.take_over(address, binding, now, |known| {
            last == Some(version(hasher, known))
        });
        // A row that does not fit is tried again.
        if let Some(until) = until {
            let row = Row {
                version: read,
                until,
            };
            self.rows.insert(key, row);
        }
    }
}

/// A hash of the values of which each REGISTER changes at least one.
fn version(hasher: &RandomState, binding: &Binding<'_>) -> u64 {
    hasher.hash_one((
        binding.call_id,
        binding.cseq,
        binding.expires_at,
        binding.source,
        binding.path,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_elements::location::LocationLimits;
    use std::borrow::Cow;
    use tandem_store::{AddressBindings, BindingRow};
    use tempfile::TempDir;

    const ALICE: &[u8] = b"alice@example.org";
    const NOW: u32 = 1_800_000_000;

    /// A database with rows, and what a server takes over from it.
    struct Bench {
        store: Store,
        locations: Locations,
        taken_over: TakenOver,
        _directory: TempDir,
    }

    impl Bench {
        async fn new(max_bindings: usize) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let url = format!("sqlite:{}", directory.path().join("t.db").display());
            Self {
                store: Store::open(&url).await.expect("opens"),
                locations: Locations::new(LocationLimits {
                    max_bindings,
                    max_pending_changes: 10,
                }),
                taken_over: TakenOver::default(),
                _directory: directory,
            }
        }

        /// Writes these rows in place of all rows of alice.
        async fn write(&self, rows: &[BindingRow<'static>]) {
            let saved = AddressBindings {
                address: Cow::Borrowed(ALICE),
                bindings: rows.to_vec(),
            };
            self.store.locations().save(&[saved]).await.expect("saves");
        }

        /// Reads the rows. Returns Call-ID and `CSeq` of the bindings of alice.
        async fn read(&mut self, later: u32) -> Vec<(String, u32)> {
            let now = at(later);
            let names = ListenerNames::new(&[]);
            let read = self
                .taken_over
                .read(&self.store, &self.locations, &names, now);
            read.await.expect("reads");
            let mut found = Vec::new();
            self.locations.visit(ALICE, now, |binding| {
                let call_id = String::from_utf8_lossy(binding.call_id).into_owned();
                found.push((call_id, binding.cseq));
            });
            found
        }

        /// As if the phone had registered here.
        fn register_here(&self, row: &BindingRow<'_>) {
            let names = ListenerNames::new(&[]);
            self.locations
                .restore(ALICE, &in_memory(row, &names, u32::MAX));
        }
    }

    fn at(later: u32) -> Time {
        Time::from_unix_seconds(u64::from(NOW + later))
    }

    fn row(call_id: &'static str, cseq: u32, lifetime: u32) -> BindingRow<'static> {
        BindingRow {
            contact: Cow::Borrowed(b"sip:alice@10.0.0.7"),
            q: 1_000,
            expires_at: NOW + lifetime,
            call_id: Cow::Borrowed(call_id.as_bytes()),
            cseq,
            path: Cow::default(),
            instance: Cow::default(),
            user_agent: Cow::default(),
            source: "192.0.2.7:40000".parse().expect("an address"),
            listener: Cow::default(),
        }
    }

    fn only(call_id: &str, cseq: u32) -> Vec<(String, u32)> {
        vec![(call_id.to_owned(), cseq)]
    }

    #[tokio::test]
    async fn a_phone_that_registers_at_kamailio_again_is_followed() {
        let mut bench = Bench::new(10).await;
        bench.write(&[row("first", 7, 3_600)]).await;
        assert_eq!(bench.read(0).await, only("first", 7));
        // It has restarted.
        bench.write(&[row("second", 1, 1_800)]).await;
        assert_eq!(bench.read(60).await, only("second", 1));
        bench.write(&[]).await;
        assert_eq!(bench.read(120).await, only("second", 1), "until it expires");
        bench.write(&[row("third", 1, 3_600)]).await;
        assert_eq!(bench.read(180).await, only("third", 1));
    }

    #[tokio::test]
    async fn a_phone_that_moves_here_is_not_moved_back() {
        let mut bench = Bench::new(10).await;
        bench.write(&[row("same", 1, 3_600)]).await;
        bench.read(0).await;
        bench.register_here(&row("same", 2, 300));
        assert_eq!(bench.read(60).await, only("same", 2));
        assert!(bench.read(300).await.is_empty(), "the row is older");
        // It moves back.
        bench.write(&[row("same", 3, 7_200)]).await;
        assert_eq!(bench.read(360).await, only("same", 3));
    }

    #[tokio::test]
    async fn a_row_that_changes_while_the_phone_is_registered_here_counts_afterwards() {
        let mut bench = Bench::new(10).await;
        bench.register_here(&row("here", 1, 300));
        for (later, cseq) in [(0, 1), (60, 2)] {
            bench.write(&[row("there", cseq, 3_600)]).await;
            assert_eq!(bench.read(later).await, only("here", 1));
        }
        bench.register_here(&row("here", 2, 600));
        assert_eq!(bench.read(300).await, only("here", 2), "it has refreshed");
        assert_eq!(bench.read(600).await, only("there", 2));
    }

    #[tokio::test]
    async fn a_binding_that_is_removed_here_stays_away_until_its_row_changes() {
        for is_registered_here in [false, true] {
            let mut bench = Bench::new(10).await;
            if is_registered_here {
                bench.register_here(&row("here", 1, 3_000));
            }
            bench.write(&[row("there", 1, 3_600)]).await;
            bench.read(0).await;
            assert_eq!(bench.locations.remove(ALICE, at(30)), 1);
            for later in [60, 120] {
                assert!(bench.read(later).await.is_empty(), "{later}");
            }
            bench.write(&[row("there", 2, 3_700)]).await;
            assert_eq!(bench.read(180).await, only("there", 2));
        }
    }

    #[tokio::test]
    async fn a_row_for_which_there_is_no_room_is_taken_over_later() {
        let mut bench = Bench::new(1).await;
        let mut other = row("other", 1, 3_600);
        other.contact = Cow::Borrowed(b"sip:alice@10.0.0.8");
        bench.register_here(&other);
        bench.write(&[row("there", 1, 3_600)]).await;
        assert_eq!(bench.read(0).await, only("other", 1));
        bench.locations.remove(ALICE, at(30));
        assert_eq!(bench.read(60).await, only("there", 1));
    }

    #[tokio::test]
    async fn a_row_is_forgotten_when_its_binding_has_expired() {
        let mut bench = Bench::new(10).await;
        bench.write(&[row("there", 1, 60)]).await;
        bench.read(0).await;
        assert_eq!(bench.taken_over.rows.len(), 1);
        bench.read(60).await;
        assert_eq!(bench.taken_over.rows.len(), 0);
    }
}
