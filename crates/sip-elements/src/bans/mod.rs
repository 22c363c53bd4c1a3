//! What keeps scanners and password guessers off: pauses after wrong passwords, counters of each source, bans.
//!
//! ```text
//! credentials with a nonce of ours for this source → pause? → password wrong → log line, pause, strike → ban
//! ```
//! **A strike needs proof that its source receives what we send**, or anybody could have others banned by datagrams with a forged source.
//! A nonce is that proof: it is bound to the source it was sent to ([`Nonces`](crate::auth::Nonces)), so credentials that answer it come
//! from there. Over connections the handshake is the proof. What proves nothing costs nothing: it is answered by a challenge, or dropped.
//!
//! All tables are shared by the workers, read without a lock, and bounded.

mod back_off;
mod client;
mod order;
mod source;
mod strikes;

pub use source::Source;

use crate::Settings;
use back_off::BackOff;
use client::{Contradiction, client_address};
use crossbeam_queue::ArrayQueue;
use order::Order;
use sip_message::Message;
use sip_transport::Time;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use strikes::Strikes;

/// Failures of a source that are logged in each window; the others are only counted.
const MOST_LINES: u32 = 20;
/// Lines that wait for the control plane.
const WAITING_LINES: usize = 1_024;
/// Characters of a user name in a line.
const MOST_NAME: usize = 64;
/// Old bans that are looked at to make room for one.
const MOST_EVICTED: usize = 16;
/// How many times the failures that ban a source ban the IPv6 network of 56 bits around it.
const NETWORK_FACTOR: u32 = 8;

/// What leads to a ban.
#[derive(Clone, Debug)]
pub struct BanSettings {
    /// Whether failures lead to bans. Pauses and bans by hand are there in any case.
    pub automatic: bool,
    /// Failures of a source within `window` that ban it.
    pub failures: u32,
    /// The window.
    pub window: Duration,
    /// How long an automatic ban lasts.
    pub duration: Duration,
    /// Requests whose User-Agent begins with one of these, in lower case, are dropped without an answer.
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

/// Why a source got a strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// A wrong password.
    WrongPassword,
    /// Credentials of a user that does not exist.
    UnknownUser,
    /// Credentials while a pause ran: they were not checked. No strike.
    Pause,
    /// What came over a connection is no SIP.
    Malformed,
}

impl Offence {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::WrongPassword,
        Self::UnknownUser,
        Self::Pause,
        Self::Malformed,
    ];

    /// In one word, for logs and metrics.
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
    /// Where it came from.
    pub source: IpAddr,
    /// Whose credentials, made fit for a line of a log: letters, digits, `.`, `_`, `+`, `-` and `@`; every other byte as `%XX`. Empty: none.
    pub user: String,
    /// Why.
    pub offence: Offence,
}

/// What the operator should read in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A source failed.
    Failure(Failure),
    /// A source failed once too often.
    Banned(Ban),
}

/// A source that is banned now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Who.
    pub source: Source,
    /// Until when.
    pub until: Time,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanStats {
    /// Sources that are banned; expired ones count until they are swept.
    pub banned: usize,
    /// Sources with failures in their window.
    pub sources: usize,
    /// Pairs of source and name with failed passwords.
    pub names: usize,
    /// Automatic bans.
    pub automatic: u64,
    /// What was not remembered for want of room: failures and automatic bans that made room for others, bans by hand.
    pub forgotten: u64,
    /// Wrong passwords through an edge proxy or a trusted peer that has not recorded where they came from: they cost no pause.
    pub unattributed: u64,
    /// Failures that were not logged: more than [`MOST_LINES`] of a source, or the control plane was behind.
    pub unlogged: u64,
    /// Failures, in the order of [`Offence::ALL`].
    pub offences: [u64; Offence::ALL.len()],
}

/// The tables.
#[derive(Debug)]
pub struct Bans {
    banned: papaya::HashMap<Source, AtomicU64>,
    most: usize,
    count: AtomicUsize,
    /// Of automatic bans.
    order: Order<Source>,
    back_off: BackOff,
    strikes: Strikes,
    lines: ArrayQueue<Notice>,
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
    /// With room for so many banned sources, sources with failures, and names with failures. Each takes less than 125 bytes.
    pub fn new(most: usize) -> Self {
        Self {
            banned: papaya::HashMap::new(),
            most,
            count: AtomicUsize::new(0),
            order: Order::new(most),
            back_off: BackOff::new(most),
            strikes: Strikes::new(most),
            lines: ArrayQueue::new(WAITING_LINES),
            automatic: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            unattributed: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
            offences: Default::default(),
        }
    }

    /// Whether what comes from this address is to be dropped. One load while there are no bans, otherwise one lookup, or two for
    /// IPv6.
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

    /// Bans a source; a longer ban that it has already stays. Returns whether there was room.
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

    /// Lifts a ban, and that of the wider network around it, and forgets the failures that led to them. Returns whether there was one.
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

    /// Bans a source that failed too often. The oldest such ban makes room, unless it has been made longer by hand.
    fn ban_for_failures(&self, source: Source, until: Time) {
        let evict = |oldest| {
            if self.remove(oldest, |end| end <= until) {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
        };
        for _ in 0..MOST_EVICTED {
            if self.count.load(Ordering::Relaxed) >= self.most {
                self.order.leave(evict);
            }
        }
        self.order.enter(source, evict);
        if self.ban(source, until) {
            self.automatic.fetch_add(1, Ordering::Relaxed);
            self.strikes.forget(source);
            self.log(Notice::Banned(Ban { source, until }));
        }
    }

    /// Whether credentials of this name are not to be checked yet. Counts that. Without a client there are no pauses: they would hit
    /// all clients of the same peer.
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

    /// A password was right.
    pub(crate) fn succeeded(&self, client: Option<Source>, username: &[u8], realm: &[u8]) {
        if let Some(client) = client {
            self.back_off.succeeded(client, username, realm);
        }
    }

    /// Credentials that answer a nonce of ours are wrong. `address` is where they came from, `client` who is to pause.
    pub(crate) fn failed(
        &self,
        (address, client): (IpAddr, Option<Source>),
        (username, realm): (&[u8], &[u8]),
        offence: Offence,
        settings: &Settings,
        now: Time,
    ) {
        match client {
            Some(client) => self.back_off.failed(client, username, realm, now),
            None => {
                self.unattributed.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.strike(address, username, offence, settings, now);
    }

    /// Counts an offence whose source is proven, logs it, and bans the source if it was one too many.
    pub(crate) fn strike(
        &self,
        address: IpAddr,
        username: &[u8],
        offence: Offence,
        settings: &Settings,
        now: Time,
    ) {
        self.count_offence(offence);
        let (source, bans) = (Source::of(address), &settings.bans);
        let failures = self.strikes.count(source, bans.window, now);
        if failures <= MOST_LINES {
            self.log(Notice::Failure(Failure {
                source: address.to_canonical(),
                user: printable(username),
                offence,
            }));
        } else {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
        }
        if !bans.automatic || settings.is_spared(address) {
            return;
        }
        let until = now + bans.duration;
        if failures >= bans.failures && !settings.spares_part_of(source) {
            self.ban_for_failures(source, until);
        }
        if let Some(network) = source.network()
            && self.strikes.count(network, bans.window, now)
                >= bans.failures.saturating_mul(NETWORK_FACTOR)
            && !settings.spares_part_of(network)
        {
            self.ban_for_failures(network, until);
        }
    }

    fn log(&self, notice: Notice) {
        if self.lines.push(notice).is_err() {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count_offence(&self, offence: Offence) {
        if let Some(counter) = self.offences.get(offence as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What to log next.
    pub fn next_line(&self) -> Option<Notice> {
        self.lines.pop()
    }

    /// Removes what is over; called now and then by the control plane.
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

    /// Counts.
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
    /// Whether failures of this address never ban it: it is this machine, or many phones stand behind it.
    pub(crate) fn is_spared(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.is_shared(address)
    }

    /// Whether a peer of the operator has an address there: a ban would hit it, too.
    fn spares_part_of(&self, source: Source) -> bool {
        let (proxy, addresses) = (&self.proxy, source.addresses());
        proxy.trusted_peers.overlaps(addresses) || proxy.edge_proxies.overlaps(addresses)
    }

    /// The source that nonces are bound to. A request of a phone may come through another of the operator's own servers than the
    /// challenge went.
    pub(crate) fn source(&self, address: IpAddr) -> Source {
        if self.is_shared(address) {
            Source::TRUSTED
        } else {
            Source::of(address)
        }
    }

    /// The source that pauses are for: the client behind an edge proxy or a trusted peer, if it is known.
    pub(crate) fn client(
        &self,
        request: &Message<'_>,
        address: IpAddr,
    ) -> Result<Option<Source>, Contradiction> {
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

/// A name that can break no line and forge none.
fn printable(name: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| {
        let digit = DIGITS.get(usize::from(nibble)).copied();
        char::from(digit.unwrap_or(b'0'))
    };
    let mut text = String::with_capacity(name.len().min(MOST_NAME));
    for byte in name {
        if text.len() >= MOST_NAME {
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
