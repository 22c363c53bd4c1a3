//! What a database server must do so that Kamailio's tables can be read there. The SQL of a server is in its implementation.

use crate::backend::{Fault, VisitName};
use crate::tables::{Select, VisitRow};
use async_trait::async_trait;
use std::fmt;

/// For a user without rights, and for another database.
pub(super) const GRANT: &str = "name the database of Kamailio in database.url, and grant its user SELECT on subscriber, location and address";

/// A row of `subscriber`. Absent values are empty.
#[derive(Clone, Copy)]
pub(super) struct SubscriberRow<'r> {
    pub(super) username: &'r str,
    pub(super) domain: &'r str,
    pub(super) password: &'r str,
    pub(super) ha1: &'r str,
}

/// A row of `location`. Absent values are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocationRow<'r> {
    pub(super) username: &'r str,
    pub(super) domain: &'r str,
    pub(super) contact: &'r str,
    /// The source of the REGISTER as a URI, if it differs from the contact.
    pub(super) received: &'r str,
    pub(super) path: &'r str,
    /// In seconds since the Unix epoch; at most [`PERMANENT`] for a binding without an end.
    pub(super) expires: i64,
    /// Negative if the phone gave none.
    pub(super) q: f64,
    pub(super) call_id: &'r str,
    pub(super) cseq: i64,
    pub(super) user_agent: &'r str,
    /// Kamailio's socket, such as `udp:192.0.2.1:5060`.
    pub(super) socket: &'r str,
    pub(super) instance: &'r str,
    pub(super) reg_id: i64,
}

/// Kamailio writes 0 for the end of a permanent binding, in its time zone.
pub(super) const PERMANENT: i64 = 86_400;

/// The columns of `subscriber` that are read, in the order of [`SubscriberRow`]. Both databases understand it.
pub(super) const SUBSCRIBER_COLUMNS: &str =
    "COALESCE(username, ''), COALESCE(domain, ''), COALESCE(password, ''), COALESCE(ha1, '')";

/// A row of `address`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressRow<'r> {
    pub(super) address: &'r str,
    pub(super) mask: i64,
    /// 0 for any port.
    pub(super) port: i64,
}

pub(super) type VisitSubscriberRow<'v> = dyn FnMut(&SubscriberRow<'_>) + Send + 'v;
pub(super) type VisitLocationRow<'v> = dyn FnMut(&LocationRow<'_>) + Send + 'v;
pub(super) type VisitAddressRow<'v> = dyn FnMut(&AddressRow<'_>) + Send + 'v;

/// A database server, in sessions that can't write.
#[async_trait]
pub(super) trait Reader: Send + Sync + fmt::Debug {
    /// Waits for an answer of the server.
    async fn ping(&self) -> Result<(), Fault>;

    /// Passes at least all rows with this username to `visit`, the oldest first.
    async fn find(&self, username: &str, visit: &mut VisitSubscriberRow<'_>) -> Result<(), Fault>;

    /// Streams all rows of `subscriber`, the oldest first.
    async fn subscribers(&self, visit: &mut VisitSubscriberRow<'_>) -> Result<(), Fault>;

    /// The number of rows, in total or of one domain.
    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault>;

    /// As [`SubscriberTable::list`](crate::backend::SubscriberTable::list).
    async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        visit: &mut VisitName<'_>,
    ) -> Result<u64, Fault>;

    /// Streams the rows of `location` that expire after `now`, and the permanent ones.
    async fn locations(&self, now: u32, visit: &mut VisitLocationRow<'_>) -> Result<(), Fault>;

    /// The number of rows of `location`, and the time of their latest change in seconds since the Unix epoch, or 0.
    async fn location_times(&self) -> Result<(u64, i64), Fault>;

    /// Streams the rows of a group of `address`.
    async fn addresses(&self, group: u32, visit: &mut VisitAddressRow<'_>) -> Result<(), Fault>;

    /// As [`Backend::rows`](crate::backend::Backend::rows).
    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault>;

    async fn close(&self);
}
