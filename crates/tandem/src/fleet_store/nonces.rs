//! The uses of nonces that the nodes of a fleet share: a replayed request is refused by all of them.
//!
//! ```text
//! PREFIX:{n}:issuer  the number of processes that have joined the fleet
//! PREFIX:{n}:uses    stream: the uses of the lifetime of a nonce. An entry has the issuer number of its writer, and up to 1,024 uses
//! ```
//! If the store is away, each node goes on with the uses that it knows. Its own wait in memory, within bounds, and are sent when the store is
//! back. The stream still has what the others wrote meanwhile.

use super::counters::FleetCounters;
use super::session::{byte_strings, list, number, pipeline, string};
use crate::redis_connection::{Bounds, Connection, RedisServer};
use anyhow::Context as _;
use redis::{Pipeline, Value};
use sip_elements::Shared;
use sip_elements::auth::NonceUse;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{info, warn};

/// How often uses are sent.
const SEND: Duration = Duration::from_millis(20);
/// Uses in one entry of the stream.
const ENTRY: usize = 1_024;
/// Entries that are read at once.
const READ: usize = 256;
/// How long a read waits for entries.
const WAIT: Duration = Duration::from_millis(500);
/// Bytes of the entries that are read at once.
const LARGE: usize = READ * (ENTRY * NonceUse::LENGTH + 256);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Raises the number of processes to this one's, in a store that has lost it.
const RAISE: &str = "if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end return 0";

/// What [`NonceLink::join`] needs.
pub(crate) struct NonceLinkOptions {
    /// The store.
    pub(crate) server: RedisServer,
    /// The beginning of all keys.
    pub(crate) prefix: String,
    /// Has the nonces.
    pub(crate) shared: Arc<Shared>,
    /// The longest lifetime of a nonce.
    pub(crate) lifetime: Duration,
    pub(crate) counters: Arc<FleetCounters>,
}

/// The exchange of a process.
pub(crate) struct NonceLink {
    server: RedisServer,
    counters: Arc<FleetCounters>,
    /// The key of the number of processes, and which of them this one is.
    joined: (String, u64),
    writer: Writer,
    reader: Reader,
}

impl NonceLink {
    /// Joins the fleet: gets an issuer number, and learns what has been used. The workers must not have started.
    ///
    /// # Errors
    /// Why the store cannot be used.
    pub(crate) async fn join(options: NonceLinkOptions) -> anyhow::Result<Self> {
        let NonceLinkOptions {
            server,
            prefix,
            shared,
            lifetime,
            counters,
        } = options;
        let mut connection = Connection::open(&server).await?;
        let (processes, uses) = (
            format!("{prefix}:{{n}}:issuer"),
            format!("{prefix}:{{n}}:uses"),
        );
        let mut commands = pipeline();
        commands.cmd("INCR").arg(&processes);
        let joined = number(ask(&mut connection, &commands, Bounds::SHORT).await?)?;
        // 0 is for servers that share nothing.
        let issuer = u16::try_from(joined % u64::from(u16::MAX)).map_or(1, |issuer| issuer + 1);
        let issuer = shared.nonces.join(issuer);
        let writer = Writer {
            shared: Arc::clone(&shared),
            stream: uses.clone(),
            issuer,
            lifetime,
            unsent: Vec::new(),
            expired: None,
        };
        let mut reader = Reader {
            shared,
            stream: uses,
            issuer,
            counters: Arc::clone(&counters),
            after: "0".to_owned(),
        };
        while reader
            .read(&mut connection, Duration::from_millis(1))
            .await?
            == READ
        {}
        Ok(Self {
            server,
            counters,
            joined: (processes, joined),
            writer,
            reader,
        })
    }

    /// Exchanges uses until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut pause = PAUSES.0;
        let mut is_failing = false;
        loop {
            let Err(problem) = self.exchange(&mut is_failing).await;
            self.counters.nonce_errors.inc();
            if !std::mem::replace(&mut is_failing, true) {
                pause = PAUSES.0;
                warn!(
                    "the uses of nonces are not shared: {problem:#}; until they are, other nodes do not notice a replay"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn exchange(&mut self, is_failing: &mut bool) -> anyhow::Result<Infallible> {
        let mut writing = Connection::open(&self.server).await?;
        let mut reading = Connection::open(&self.server).await?;
        let (processes, joined) = &self.joined;
        let mut commands = pipeline();
        commands
            .cmd("EVAL")
            .arg(RAISE)
            .arg(1)
            .arg(processes)
            .arg(*joined);
        ask(&mut writing, &commands, Bounds::SHORT).await?;
        if std::mem::take(is_failing) {
            info!("the uses of nonces are shared again");
        }
        tokio::select! {
            ended = self.writer.run(&mut writing) => ended,
            ended = self.reader.run(&mut reading) => ended,
        }
    }
}

/// Sends the uses of this process.
struct Writer {
    shared: Arc<Shared>,
    stream: String,
    issuer: u16,
    lifetime: Duration,
    /// Uses that the store has not taken.
    unsent: Vec<NonceUse>,
    /// Entries before this one are of no use any more.
    expired: Option<u64>,
}

impl Writer {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<Infallible> {
        loop {
            if self.unsent.is_empty() {
                self.unsent = self.shared.nonces.take_uses(ENTRY);
            }
            if self.unsent.is_empty() {
                sleep(SEND).await;
                continue;
            }
            self.send(connection).await?;
            let are_more = self.unsent.len() == ENTRY;
            self.unsent.clear();
            if !are_more {
                sleep(SEND).await;
            }
        }
    }

    async fn send(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        let mut bytes = Vec::with_capacity(self.unsent.len() * NonceUse::LENGTH);
        self.unsent.iter().for_each(|used| used.write(&mut bytes));
        let mut commands = pipeline();
        commands.cmd("XADD").arg(&self.stream);
        if let Some(expired) = self.expired {
            commands.arg("MINID").arg("~").arg(expired);
        }
        commands
            .arg("*")
            .arg("issuer")
            .arg(self.issuer)
            .arg("uses")
            .arg(bytes);
        let id = string(Some(ask(connection, &commands, Bounds::SHORT).await?))?;
        let millis = id
            .split('-')
            .next()
            .and_then(|millis| millis.parse::<u64>().ok());
        let lifetime = u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX);
        self.expired = millis.map(|millis| millis.saturating_sub(lifetime));
        Ok(())
    }
}

/// Takes over the uses of others.
struct Reader {
    shared: Arc<Shared>,
    stream: String,
    issuer: u16,
    counters: Arc<FleetCounters>,
    /// The last entry that was read.
    after: String,
}

impl Reader {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<Infallible> {
        loop {
            self.read(connection, WAIT).await?;
        }
    }

    /// Reads what has come since the last time, or waits for it. Returns the number of entries.
    async fn read(&mut self, connection: &mut Connection, wait: Duration) -> anyhow::Result<usize> {
        let mut commands = pipeline();
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        commands
            .cmd("XREAD")
            .arg("COUNT")
            .arg(READ)
            .arg("BLOCK")
            .arg(millis);
        commands.arg("STREAMS").arg(&self.stream).arg(&self.after);
        let bounds = Bounds {
            patience: wait + Bounds::SHORT.patience,
            bytes: LARGE,
        };
        let streams = list(Some(ask(connection, &commands, bounds).await?))?;
        let Some(stream) = streams.into_iter().next() else {
            return Ok(0);
        };
        let entries = list(list(Some(stream))?.into_iter().nth(1))?;
        let count = entries.len();
        for entry in entries {
            let mut parts = list(Some(entry))?.into_iter();
            self.after = string(parts.next())?;
            self.take_over(&byte_strings(list(parts.next())?)?);
        }
        Ok(count)
    }

    /// Takes over an entry. One that another program wrote has other fields, and is skipped.
    fn take_over(&self, fields: &[Vec<u8>]) {
        let [_, issuer, _, uses] = fields else { return };
        if *issuer == self.issuer.to_string().as_bytes() {
            return;
        }
        for used in uses.chunks(NonceUse::LENGTH).filter_map(NonceUse::read) {
            self.shared.nonces.note_use(used);
            self.counters.nonce_uses.inc();
        }
    }
}

/// The response to a single command.
async fn ask(
    connection: &mut Connection,
    command: &Pipeline,
    bounds: Bounds,
) -> anyhow::Result<Value> {
    let responses = connection.request(command, bounds).await?;
    let response = responses.into_iter().next().context("no response")?;
    Ok(response?)
}
