//! Sums of the counters of all workers.
use crate::serve::{DataPlane, Figures};
use sip_elements::DeadTargetStats;
use sip_elements::bans::BanStats;
use sip_elements::location::LocationStats;
use sip_elements::metrics::{TRANSACTION_COUNTS, WorkerMetrics};
use sip_runtime::WorkerStats;
use sip_transport::{Counter, Time};
use std::sync::Arc;
use std::time::Duration;

/// Sums over the workers; zeros before they start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals<'c>(pub(super) Option<&'c DataPlane>);

impl<'c> Totals<'c> {
    /// The sum of a SIP counter.
    pub(super) fn sip(self, counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
        self.metrics()
            .iter()
            .map(|worker| counter(worker).value())
            .sum()
    }

    /// The sum of the SIP counters at an index of an array.
    pub(super) fn sip_at(
        self,
        counters: impl Fn(&WorkerMetrics) -> &[Counter],
        place: usize,
    ) -> u64 {
        let at = |worker: &Arc<WorkerMetrics>| counters(worker).get(place).map(Counter::value);
        self.metrics().iter().filter_map(at).sum()
    }

    /// The sum of a socket or queue counter.
    pub(super) fn io(self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.stats()
            .iter()
            .map(|worker| counter(worker).value())
            .sum()
    }

    /// The sum of the socket counters at an index of an array.
    pub(super) fn io_at(self, counters: impl Fn(&WorkerStats) -> &[Counter], place: usize) -> u64 {
        let at = |worker: &Arc<WorkerStats>| counters(worker).get(place).map(Counter::value);
        self.stats().iter().filter_map(at).sum()
    }

    /// A counter of the transaction layer by its name in [`TRANSACTION_COUNTS`].
    pub(super) fn transactions(self, name: &str) -> u64 {
        let place = TRANSACTION_COUNTS.iter().position(|known| *known == name);
        place.map_or(0, |place| self.sip_at(|worker| &worker.transactions, place))
    }

    /// Counters of the location service.
    pub(super) fn locations(self) -> LocationStats {
        self.0
            .map(|data_plane| data_plane.shared.locations.stats())
            .unwrap_or_default()
    }

    /// Addresses of record whose changes are not in the database: pending changes plus those being saved. They are read in this
    /// order because a change moves from the former to the latter.
    pub(super) fn unsaved(self, figures: &Figures) -> u64 {
        let pending = self.0.map_or(0, |data_plane| {
            data_plane.shared.locations.pending_changes() as u64
        });
        pending + figures.unsaved.value()
    }

    /// Age of the oldest change that is not in the database.
    pub(super) fn save_lag(self, now: Time) -> Duration {
        self.0
            .map(|data_plane| data_plane.shared.locations.save_lag(now))
            .unwrap_or_default()
    }

    /// Refreshes that need not be written to the database.
    pub(super) fn refreshes_not_written(self) -> u64 {
        self.0.map_or(0, |data_plane| {
            data_plane.shared.locations.refreshes_not_written()
        })
    }

    /// Counters of failures and bans.
    pub(super) fn bans(self) -> BanStats {
        self.0
            .map(|data_plane| data_plane.shared.bans.stats())
            .unwrap_or_default()
    }

    /// Counters of dead targets.
    pub(super) fn dead_targets(self) -> DeadTargetStats {
        self.0
            .map(|data_plane| data_plane.shared.dead_targets.stats())
            .unwrap_or_default()
    }

    /// Entries in the credentials cache.
    pub(super) fn cached(self) -> usize {
        self.0
            .map_or(0, |data_plane| data_plane.shared.credentials.len())
    }

    /// Number of listeners.
    pub(super) fn listeners(self) -> usize {
        self.0.map_or(0, |data_plane| data_plane.listeners.len())
    }

    /// SIP counters of each worker.
    pub(super) fn metrics(self) -> &'c [Arc<WorkerMetrics>] {
        self.0
            .map(|data_plane| data_plane.metrics.as_slice())
            .unwrap_or_default()
    }

    /// Socket and queue counters of each worker.
    pub(super) fn stats(self) -> &'c [Arc<WorkerStats>] {
        self.0
            .map(|data_plane| &*data_plane.stats)
            .unwrap_or_default()
    }
}
