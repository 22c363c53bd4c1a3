//! The commands that the link sends, and how it reads the responses. The store is a peer like any other: a response of another form is an
//! error, and records that are not ours are skipped.

use super::layout::{Layout, SHARDS, shard};
use super::outbox::Outgoing;
use crate::redis_connection::{Bounds, Connection, RedisServer};
use anyhow::{Context as _, anyhow, bail};
use redis::{Pipeline, RedisResult, Value};
use std::collections::HashMap;
use std::time::Duration;
use tandem_store::fleet::Version;

/// Records in one entry of the stream, and about their bytes. One script writes them at once, while the store does nothing else.
const ENTRY: usize = 64;
const ENTRY_BYTES: usize = 128 << 10;
/// Entries that a stream keeps. Readers that are further behind compare all records instead.
const STREAM: usize = 1_024;
/// Entries of each stream that are read at once.
const READ: usize = 16;
/// Fields that one step of a scan returns, approximately.
const SCAN: usize = 1_000;
/// Bytes of the responses to a read or a scan.
pub(super) const LARGE: usize = 64 << 20;
/// Time limit of the responses.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

const WRITE: &str = include_str!("write.lua");
const DELETE: &str = include_str!("delete.lua");

/// What identifies the data of the store, and where its streams end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The process of the store. A new one may have lost the latest changes.
    pub(super) run: String,
    /// The epoch of each shard. A new one has lost everything.
    pub(super) epochs: Vec<String>,
    /// The last entry of each stream that was read.
    pub(super) read: Vec<Read>,
}

/// A place in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) id: String,
    pub(super) number: u64,
}

impl Position {
    /// Whether a reader at this position can go on in a store that is at `found`.
    pub(super) fn leads_to(&self, found: &Self) -> bool {
        let mut reads = self.read.iter().zip(&found.read);
        self.run == found.run
            && self.epochs == found.epochs
            && reads.all(|(own, found)| own.number <= found.number)
    }
}

/// An entry of a stream.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) shard: u16,
    pub(super) at: Read,
    pub(super) origin: String,
    /// Fields and values.
    pub(super) records: Vec<Vec<u8>>,
}

/// A connection to the store, with the scripts.
pub(super) struct Session {
    connection: Connection,
    layout: Layout,
    write: String,
    delete: String,
}

impl Session {
    pub(super) async fn open(server: &RedisServer, layout: &Layout) -> anyhow::Result<Self> {
        let mut session = Self {
            connection: Connection::open(server).await?,
            layout: layout.clone(),
            write: String::new(),
            delete: String::new(),
        };
        let mut commands = pipeline();
        for script in [WRITE, DELETE] {
            commands.cmd("SCRIPT").arg("LOAD").arg(script);
        }
        let mut hashes = session.ask(&commands).await?.into_iter();
        session.write = string(hashes.next())?;
        session.delete = string(hashes.next())?;
        Ok(session)
    }

    async fn ask(&mut self, commands: &Pipeline) -> anyhow::Result<Vec<Value>> {
        self.ask_within(commands, PATIENCE).await
    }

    async fn ask_within(
        &mut self,
        commands: &Pipeline,
        patience: Duration,
    ) -> anyhow::Result<Vec<Value>> {
        let bounds = Bounds {
            patience,
            bytes: LARGE,
        };
        let responses = self.connection.request(commands, bounds).await?;
        let responses: RedisResult<Vec<Value>> = responses.into_iter().collect();
        Ok(responses?)
    }

    /// Where the store is. `epoch` becomes the epoch of shards that have none.
    pub(super) async fn position(&mut self, epoch: &str) -> anyhow::Result<Position> {
        let mut commands = pipeline();
        commands.cmd("INFO").arg("server");
        for shard in 0..SHARDS {
            let (state, changes) = (self.layout.state(shard), self.layout.changes(shard));
            commands.cmd("HSETNX").arg(&state).arg("epoch").arg(epoch);
            commands.cmd("HMGET").arg(&state).arg(&["epoch", "number"]);
            commands
                .cmd("XREVRANGE")
                .arg(&changes)
                .arg(&["+", "-"])
                .arg(&["COUNT", "1"]);
        }
        let mut responses = self.ask(&commands).await?.into_iter();
        let mut position = Position {
            run: run_of(&string(responses.next())?),
            ..Position::default()
        };
        while let (Some(_), Some(state), Some(last)) =
            (responses.next(), responses.next(), responses.next())
        {
            let mut state = list(Some(state))?.into_iter();
            position.epochs.push(string(state.next())?);
            let number = match state.next() {
                Some(Value::Nil) | None => 0,
                number => string(number)?.parse().context("the number of a change")?,
            };
            // The entry has its own number, because another node may write between two commands.
            position
                .read
                .push(match list(Some(last))?.into_iter().next() {
                    Some(entry) => change(0, entry)?.at,
                    None => Read {
                        id: "0-0".to_owned(),
                        number,
                    },
                });
        }
        Ok(position)
    }

    /// Whether the store still has its data.
    pub(super) async fn has_epoch(&mut self, position: &Position) -> anyhow::Result<bool> {
        let mut commands = pipeline();
        for shard in 0..SHARDS {
            commands
                .cmd("HGET")
                .arg(self.layout.state(shard))
                .arg("epoch");
        }
        let found = self.ask(&commands).await?.into_iter();
        let mut pairs = found.zip(&position.epochs);
        Ok(pairs.all(|(found, epoch)| string(Some(found)).is_ok_and(|found| found == *epoch)))
    }

    /// Writes records, which are in the order of their buckets. Returns how many were newer than those in the store.
    pub(super) async fn write(
        &mut self,
        records: &[Outgoing],
        position: &Position,
        origin: &str,
    ) -> anyhow::Result<u64> {
        let mut commands = pipeline();
        let mut left = records;
        while let Some(first) = left.first() {
            let of = shard(first.place.0);
            let mut bytes = 0;
            let count = left.iter().take(ENTRY).take_while(|record| {
                bytes += record.bytes();
                shard(record.place.0) == of && (bytes <= ENTRY_BYTES || bytes == record.bytes())
            });
            let (entry, rest) = left.split_at(count.count().max(1));
            self.add_entry(&mut commands, entry, position, origin);
            left = rest;
        }
        let written = self.ask(&commands).await?.into_iter().map(number);
        written.sum()
    }

    fn add_entry(
        &self,
        commands: &mut Pipeline,
        entry: &[Outgoing],
        position: &Position,
        origin: &str,
    ) {
        let of = entry.first().map_or(0, |record| shard(record.place.0));
        let mut buckets: Vec<u16> = entry.iter().map(|record| record.place.0).collect();
        buckets.dedup();
        let epoch = position.epochs.get(usize::from(of));
        commands
            .cmd("EVALSHA")
            .arg(&self.write)
            .arg(2 + buckets.len());
        commands
            .arg(self.layout.state(of))
            .arg(self.layout.changes(of));
        for bucket in &buckets {
            commands.arg(self.layout.bucket(*bucket));
        }
        commands
            .arg(epoch.map_or("", String::as_str))
            .arg(STREAM)
            .arg(origin);
        for record in entry {
            let place = buckets.partition_point(|bucket| *bucket < record.place.0);
            commands
                .arg(place + 1)
                .arg(&record.field)
                .arg(&record.value);
        }
    }

    /// Deletes records of a bucket that have not changed since they were read. Returns how many.
    pub(super) async fn delete(
        &mut self,
        bucket: u16,
        records: &[(Vec<u8>, Version)],
    ) -> anyhow::Result<u64> {
        let mut commands = pipeline();
        commands
            .cmd("EVALSHA")
            .arg(&self.delete)
            .arg(1)
            .arg(self.layout.bucket(bucket));
        for (field, version) in records {
            let (time, writer) = (version.time.word(), version.writer.word());
            let version = [time.to_be_bytes(), writer.to_be_bytes()].concat();
            commands.arg(field).arg(version);
        }
        number(
            self.ask(&commands)
                .await?
                .into_iter()
                .next()
                .unwrap_or(Value::Nil),
        )
    }

    /// Some of the records of each of these buckets, from the cursor on. Returns the next cursor, which is 0 at the end, and fields and
    /// values.
    pub(super) async fn scan(
        &mut self,
        cursors: &[(u16, u64)],
    ) -> anyhow::Result<Vec<(u64, Vec<Vec<u8>>)>> {
        let mut commands = pipeline();
        for (bucket, cursor) in cursors {
            commands
                .cmd("HSCAN")
                .arg(self.layout.bucket(*bucket))
                .arg(*cursor);
            commands.arg("COUNT").arg(SCAN);
        }
        let responses = self.ask(&commands).await?.into_iter();
        let part = |response| {
            let mut parts = list(Some(response))?.into_iter();
            let cursor = string(parts.next())?
                .parse()
                .context("the cursor of a scan")?;
            Ok((cursor, byte_strings(list(parts.next())?)?))
        };
        responses.map(part).collect()
    }

    /// Waits for changes after a position, for at most `longest`.
    pub(super) async fn changes(
        &mut self,
        after: &[Read],
        longest: Duration,
    ) -> anyhow::Result<Vec<Change>> {
        let keys: Vec<String> = (0..SHARDS)
            .map(|shard| self.layout.changes(shard))
            .collect();
        let mut commands = pipeline();
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        commands
            .cmd("XREAD")
            .arg("COUNT")
            .arg(READ)
            .arg("BLOCK")
            .arg(millis);
        commands.arg("STREAMS").arg(&keys);
        for read in after {
            commands.arg(&read.id);
        }
        let mut responses = self
            .ask_within(&commands, longest + PATIENCE)
            .await?
            .into_iter();
        let streams = match responses.next() {
            Some(Value::Nil) | None => return Ok(Vec::new()),
            streams => list(streams)?,
        };
        let shards: HashMap<&str, u16> = keys.iter().map(String::as_str).zip(0..).collect();
        let mut changes = Vec::new();
        for stream in streams {
            let mut parts = list(Some(stream))?.into_iter();
            let name = string(parts.next())?;
            let shard = *shards.get(name.as_str()).context("an unknown stream")?;
            for entry in list(parts.next())? {
                changes.push(change(shard, entry)?);
            }
        }
        Ok(changes)
    }
}

fn change(shard: u16, entry: Value) -> anyhow::Result<Change> {
    let mut parts = list(Some(entry))?.into_iter();
    let id = string(parts.next())?;
    let mut fields = byte_strings(list(parts.next())?)?.into_iter();
    let head: Vec<Vec<u8>> = fields.by_ref().take(4).collect();
    // An entry that another program added has another head. It counts as a gap.
    let (number, origin) = match head.as_slice() {
        [first, number, second, origin] if first == b"number" && second == b"origin" => {
            let number = String::from_utf8_lossy(number).parse().unwrap_or_default();
            (number, String::from_utf8_lossy(origin).into_owned())
        }
        _ => (0, String::new()),
    };
    Ok(Change {
        shard,
        at: Read { id, number },
        origin,
        records: fields.collect(),
    })
}

pub(super) fn pipeline() -> Pipeline {
    let mut commands = Pipeline::new();
    commands.ignore_errors();
    commands
}

/// The line `run_id` of `INFO`; empty if the store does not say it.
fn run_of(info: &str) -> String {
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    run.unwrap_or_default().trim().to_owned()
}

pub(super) fn string(value: Option<Value>) -> anyhow::Result<String> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(String::from_utf8(bytes)?),
        Some(Value::SimpleString(text) | Value::VerbatimString { text, .. }) => Ok(text),
        other => Err(unexpected("a string", other.as_ref())),
    }
}

pub(super) fn list(value: Option<Value>) -> anyhow::Result<Vec<Value>> {
    match value {
        Some(Value::Array(values)) => Ok(values),
        Some(Value::Nil) => Ok(Vec::new()),
        other => Err(unexpected("a list", other.as_ref())),
    }
}

pub(super) fn byte_strings(values: Vec<Value>) -> anyhow::Result<Vec<Vec<u8>>> {
    let bytes = |value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        other => Err(unexpected("a string", Some(&other))),
    };
    values.into_iter().map(bytes).collect()
}

pub(super) fn number(value: Value) -> anyhow::Result<u64> {
    match value {
        Value::Int(number) => Ok(u64::try_from(number)?),
        other => bail!(unexpected("a number", Some(&other))),
    }
}

fn unexpected(what: &str, value: Option<&Value>) -> anyhow::Error {
    let kind = match value {
        Some(Value::Nil) => "nothing",
        Some(Value::Int(_)) => "a number",
        Some(Value::BulkString(_) | Value::SimpleString(_)) => "a string",
        Some(Value::Array(_)) => "a list",
        Some(_) => "something else",
        None => "no response",
    };
    anyhow!(
        "the response is {kind} instead of {what}: it is not Redis or Valkey, or another program uses the same keys"
    )
}
