//! Protection against scanners and password guessing: pauses after wrong passwords, failure counts for each source, and bans.
//!
//! ```text
//! credentials with our nonce for this source → pause? → password wrong → log line, pause, strike → ban
//! ```
//! **A strike needs proof that the source receives what the server sends.** Otherwise an attacker could get others banned
//! with datagrams from a forged source.
//!
//! - For datagrams, a nonce is the proof. It is bound to the source that it was sent to
//!   ([`Nonces`](crate::auth::Nonces)), so credentials that answer it come from there.
//! - For connections, the handshake is the proof.
//! - A message without proof has no consequences for its source: it gets a challenge or is dropped.
//!
//! All tables are shared by the workers, read without a lock, and bounded.

mod back_off;
mod client;
mod order;
mod source;
mod strikes;

pub use source::Source;

use crate::Settings;
use crate::registrations::RegistrationNotice;
use back_off::BackOff;
use client::{InvalidVia, client_address};
use order::Order;
use sip_message::Message;
use sip_transport::Time;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use strikes::Strikes;

/// Failures of a source that are logged in each window. Further ones are only counted.
const MAX_LINES: u32 = 20;
/// The maximum length of a user name in a log line, in characters.
const MAX_NAME: usize = 64;
/// The maximum length of a Call-ID in a log line, in characters.
const MAX_CALL_ID: usize = 128;
/// How many old bans are examined to make room for a new one.
const MAX_EVICTED: usize = 16;
/// The IPv6 /56 network around a source is banned after this many times the failures that ban the source.
const NETWORK_FACTOR: u32 = 8;

/// When failures lead to a ban.
#[derive(Clone, Debug)]
pub struct BanSettings {
    /// Whether failures lead to bans. Pauses and bans by hand do not depend on this.
    pub automatic: bool,
    /// The number of failures within `window` that bans a source.
    pub failures: u32,
    /// The time within which failures are counted together.
    pub window: Duration,
    /// How long an automatic ban lasts.
    pub duration: Duration,
    /// Requests whose User-Agent begins with one of these are dropped without a response. The entries are in lower case.
    pub drop_user_agents: Vec<String>,
}

impl Default for BanSettings {
    fn default() -> Self {
        Self {
            automatic: true,
            failures: 50,
            window: Duration::from_secs(300),
            duration: Duration::from_secs(600),
            drop_user_agents: Vec::new(),
        }
    }
}

/// The reason for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// A wrong password.
    WrongPassword,
    /// Credentials of a user that does not exist.
    UnknownUser,
    /// Credentials sent during a pause. They were not checked, so this is not a strike.
    Pause,
    /// Data on a connection that is not SIP.
    Malformed,
}

impl Offence {
    /// All offences, in the order of [`BanStats::offences`].
    pub const ALL: [Self; 4] = [
        Self::WrongPassword,
        Self::UnknownUser,
        Self::Pause,
        Self::Malformed,
    ];

    /// The offence as one word, for logs and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong_password",
            Self::UnknownUser => "unknown_user",
            Self::Pause => "pause",
            Self::Malformed => "malformed",
        }
    }
}

/// One failure, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The address that it came from.
    pub source: IpAddr,
    /// The user name of the credentials, safe for a log line: letters, digits, `.`, `_`, `+`, `-` and `@`; every other
    /// byte as `%XX`. Empty if there were no credentials.
    pub user: String,
    /// The reason.
    pub offence: Offence,
    /// The Call-ID of the request, safe for a log line like `user`. Empty if there was none.
    pub call_id: String,
}

/// A failure that counts against its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike<'s> {
    /// Where the message came from.
    pub(crate) address: IpAddr,
    /// The user name of its credentials; empty if there were none.
    pub(crate) username: &'s [u8],
    /// The reason.
    pub(crate) offence: Offence,
    /// The Call-ID of the request; empty if there was none.
    pub(crate) call_id: &'s [u8],
}

/// An event for the operator's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A source failed.
    Failure(Failure),
    /// A source reached the limit of failures and is banned.
    Banned(Ban),
    /// The registration of this server at a gateway has changed.
    Registration(RegistrationNotice),
}

/// A ban that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The banned source.
    pub source: Source,
    /// When the ban ends.
    pub until: Time,
}

/// Sizes of the tables now, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanStats {
    /// Banned sources. Expired bans are included until the next sweep.
    pub banned: usize,
    /// Sources with failures in their window.
    pub sources: usize,
    /// Pairs of source and user name with wrong passwords.
    pub names: usize,
    /// Automatic bans.
    pub automatic: u64,
    /// Entries lost for lack of room: evicted failures, evicted automatic bans, and rejected bans by hand.
    pub forgotten: u64,
    /// Wrong passwords through an edge proxy or a trusted peer that did not record their source. They cause no pause.
    pub unattributed: u64,
    /// Failures that were not logged: more than 20 from one source in a window.
    pub unlogged: u64,
    /// Failures, in the order of [`Offence::ALL`].
    pub offences: [u64; Offence::ALL.len()],
}

/// The tables of bans, pauses and failures.
#[derive(Debug)]
pub struct Bans {
    banned: papaya::HashMap<Source, AtomicU64>,
    most: usize,
    count: AtomicUsize,
    /// The automatic bans.
    order: Order<Source>,
    back_off: BackOff,
    strikes: Strikes,
    automatic: AtomicU64,
    forgotten: AtomicU64,
    unattributed: AtomicU64,
    unlogged: AtomicU64,
    offences: [AtomicU64; Offence::ALL.len()],
}

impl Default for Bans {
    fn default() -> Self {
        Self::new(65_536)
    }
}

impl Bans {
    /// Creates tables for `most` banned sources, `most` sources with failures and `most` names with failures. Each entry
    /// takes less than 125 bytes.
    pub fn new(most: usize) -> Self {
        Self {
            banned: papaya::HashMap::new(),
            most,
            count: AtomicUsize::new(0),
            order: Order::new(most),
            back_off: BackOff::new(most),
            strikes: Strikes::new(most),
            automatic: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            unattributed: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
            offences: Default::default(),
        }
    }

    /// Whether to drop messages from this address. This costs one load while there are no bans, otherwise one lookup, or
    /// two for IPv6.
    pub fn is_banned(&self, address: IpAddr, now: Time) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let banned = self.banned.pin();
        let is_in_force = |source: Source| {
            let until = banned.get(&source);
            until.is_some_and(|until| until.load(Ordering::Relaxed) > now.as_micros())
        };
        let source = Source::of(address);
        is_in_force(source) || source.network().is_some_and(is_in_force)
    }

    /// Bans a source. If it already has a longer ban, that ban stays. Returns whether there was room.
    pub fn ban(&self, source: Source, until: Time) -> bool {
        let banned = self.banned.pin();
        let entry = match banned.get(&source) {
            Some(entry) => entry,
            None if self.count.load(Ordering::Relaxed) >= self.most => {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            None => banned.get_or_insert_with(source, || {
                self.count.fetch_add(1, Ordering::Relaxed);
                AtomicU64::new(0)
            }),
        };
        entry.fetch_max(until.as_micros(), Ordering::Relaxed);
        true
    }

    /// Lifts the ban of a source and that of the wider network around it, and forgets the failures that led to them.
    /// Returns whether there was a ban.
    pub fn lift(&self, source: Source) -> bool {
        let lift = |source| {
            self.strikes.forget(source);
            self.remove(source, |_| true)
        };
        let is_wide_lifted = source.network().is_some_and(lift);
        lift(source) || is_wide_lifted
    }

    fn remove(&self, source: Source, is_meant: impl Fn(Time) -> bool) -> bool {
        let banned = self.banned.pin();
        let ends = |until: &AtomicU64| Time::from_micros(until.load(Ordering::Relaxed));
        let removed = banned.remove_if(&source, |_, until| is_meant(ends(until)));
        let is_removed = matches!(removed, Ok(Some(_)));
        if is_removed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        is_removed
    }

    /// Bans a source that failed too often. If the table is full, the oldest automatic ban is evicted, unless it was
    /// extended by hand.
    fn ban_for_failures(&self, source: Source, until: Time, notify: &mut dyn FnMut(Notice)) {
        let evict = |oldest| {
            if self.remove(oldest, |end| end <= until) {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
        };
        for _ in 0..MAX_EVICTED {
            if self.count.load(Ordering::Relaxed) >= self.most {
                self.order.leave(evict);
            }
        }
        self.order.enter(source, evict);
        if self.ban(source, until) {
            self.automatic.fetch_add(1, Ordering::Relaxed);
            self.strikes.forget(source);
            notify(Notice::Banned(Ban { source, until }));
        }
    }

    /// Whether a pause applies to credentials of this name; if so, it is counted. Without a known client there are no
    /// pauses, because they would hit all clients of the same peer.
    pub(crate) fn pauses(
        &self,
        client: Option<Source>,
        username: &[u8],
        realm: &[u8],
        now: Time,
    ) -> bool {
        let pauses =
            client.is_some_and(|client| self.back_off.pauses(client, username, realm, now));
        if pauses {
            self.count_offence(Offence::Pause);
        }
        pauses
    }

    /// Ends the pauses of a name after a right password.
    pub(crate) fn succeeded(&self, client: Option<Source>, username: &[u8], realm: &[u8]) {
        if let Some(client) = client {
            self.back_off.succeeded(client, username, realm);
        }
    }

    /// Starts or prolongs a pause after wrong credentials that answer one of our nonces.
    pub(crate) fn pause(&self, client: Option<Source>, username: &[u8], realm: &[u8], now: Time) {
        match client {
            Some(client) => self.back_off.failed(client, username, realm, now),
            None => {
                self.unattributed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts an offence of a proven source. Bans the source when it reaches the limit. `notify` gets what belongs in the
    /// operator's log.
    pub(crate) fn strike(
        &self,
        strike: &Strike<'_>,
        settings: &Settings,
        now: Time,
        notify: &mut dyn FnMut(Notice),
    ) {
        let Strike {
            address,
            username,
            offence,
            call_id,
        } = *strike;
        self.count_offence(offence);
        let (source, bans) = (Source::of(address), &settings.bans);
        let failures = self.strikes.count(source, bans.window, now);
        if failures <= MAX_LINES {
            notify(Notice::Failure(Failure {
                source: address.to_canonical(),
                user: printable(username, MAX_NAME),
                offence,
                call_id: printable(call_id, MAX_CALL_ID),
            }));
        } else {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
        }
        if !bans.automatic || settings.is_spared(address) {
            return;
        }
        let until = now + bans.duration;
        if failures >= bans.failures && !settings.spares_part_of(source) {
            self.ban_for_failures(source, until, notify);
        }
        if let Some(network) = source.network()
            && self.strikes.count(network, bans.window, now)
                >= bans.failures.saturating_mul(NETWORK_FACTOR)
            && !settings.spares_part_of(network)
        {
            self.ban_for_failures(network, until, notify);
        }
    }

    fn count_offence(&self, offence: Offence) {
        if let Some(counter) = self.offences.get(offence as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes expired entries. The control plane calls this periodically.
    pub fn sweep(&self, window: Duration, now: Time) {
        let banned = self.banned.pin();
        for (source, _) in &banned {
            let is_over = |until: &AtomicU64| until.load(Ordering::Relaxed) <= now.as_micros();
            if let Ok(Some(_)) = banned.remove_if(source, |_, until| is_over(until)) {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.strikes.sweep(window, now);
        self.back_off.sweep(now);
    }

    /// Calls `visit` with each ban that is in force.
    pub fn for_each(&self, now: Time, mut visit: impl FnMut(Ban)) {
        for (source, until) in &self.banned.pin() {
            let until = Time::from_micros(until.load(Ordering::Relaxed));
            if until > now {
                visit(Ban {
                    source: *source,
                    until,
                });
            }
        }
    }

    /// Reads the sizes and counts.
    pub fn stats(&self) -> BanStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BanStats {
            banned: self.count.load(Ordering::Relaxed),
            sources: self.strikes.len(),
            names: self.back_off.len(),
            automatic: read(&self.automatic),
            forgotten: read(&self.forgotten) + self.strikes.evicted() + self.back_off.evicted(),
            unattributed: read(&self.unattributed),
            unlogged: read(&self.unlogged),
            offences: self.offences.each_ref().map(read),
        }
    }
}

impl Settings {
    /// Whether failures never ban this address: it is this machine, or many phones share it.
    pub(crate) fn is_spared(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.is_shared(address)
    }

    /// Whether a trusted peer or an edge proxy has an address in this source. A ban would hit it too.
    fn spares_part_of(&self, source: Source) -> bool {
        let (proxy, addresses) = (&self.proxy, source.addresses());
        proxy.trusted_peers.overlaps(addresses) || proxy.edge_proxies.overlaps(addresses)
    }

    /// The source that nonces are bound to. All trusted peers and edge proxies count as one source: a phone may send its
    /// request through another of the operator's servers than the one that passed it the challenge.
    pub(crate) fn source(&self, address: IpAddr) -> Source {
        if self.is_shared(address) {
            Source::TRUSTED
        } else {
            Source::of(address)
        }
    }

    /// The source that pauses apply to. For requests from an edge proxy or a trusted peer this is the client behind it,
    /// if known.
    pub(crate) fn client(
        &self,
        request: &Message<'_>,
        address: IpAddr,
    ) -> Result<Option<Source>, InvalidVia> {
        let client = if self.is_shared(address) {
            client_address(request, self)?
        } else {
            Some(address)
        };
        Ok(client.map(Source::of))
    }

    fn is_shared(&self, address: IpAddr) -> bool {
        let proxy = &self.proxy;
        proxy.trusted_peers.contains(address) || proxy.edge_proxies.contains(address)
    }
}

/// Escapes a name so that it can neither break nor forge a log line, and cuts it off after about `most` characters.
fn printable(name: &[u8], most: usize) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| {
        let digit = DIGITS.get(usize::from(nibble)).copied();
        char::from(digit.unwrap_or(b'0'))
    };
    let mut text = String::with_capacity(name.len().min(most));
    for byte in name {
        if text.len() >= most {
            break;
        }
        if byte.is_ascii_alphanumeric() || b"._+-@".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.extend(['%', digit(byte >> 4), digit(byte & 0xf)]);
        }
    }
    text
}

#[cfg(test)]
mod tests;
