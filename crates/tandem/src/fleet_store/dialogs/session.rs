//! The commands that exchange dialogs with the store, and how their responses are read. All keys have one hash tag, because the scripts use
//! several of them.
//!
//! ```text
//! PREFIX:{d}:c:KEY          string: the record of a dialog, with an expiry
//! PREFIX:{d}:of:INSTANCE    sorted set: the keys of the dialogs of a node, by their expiry
//! PREFIX:{d}:lost:INSTANCE  list: what other nodes have claimed of it, kept for a day
//! PREFIX:{d}:nodes          sorted set: instances, by their last beat (milliseconds of the store's clock)
//! ```

use super::super::session::{LARGE, PATIENCE, byte_strings, list, pipeline, string};
use super::ledger::{KEPT, Write};
use super::record::StoredDialog;
use crate::redis_connection::{Bounds, Connection, RedisServer};
use anyhow::bail;
use redis::{Cmd, Pipeline, RedisResult, Value, cmd};
use std::time::Duration;

/// Dialogs of one script call, which keeps the store from doing anything else.
const AT_ONCE: usize = 64;
/// News that one beat returns.
pub(super) const NEWS: usize = 1_000;

const WRITE: &str = concat!(include_str!("head.lua"), include_str!("write.lua"));
const CLAIM: &str = concat!(include_str!("head.lua"), include_str!("claim.lua"));
const BEAT: &str = concat!(include_str!("head.lua"), include_str!("beat.lua"));
const ORPHANS: &str = concat!(include_str!("head.lua"), include_str!("orphans.lua"));

/// What a beat returns.
pub(super) struct Beat {
    /// The store did not know this node: it has lost its data, or took this node for gone.
    pub(super) is_new: bool,
    /// Dialogs that other nodes have claimed; more may follow if there are [`NEWS`] of them.
    pub(super) lost: Vec<StoredDialog>,
}

/// A connection to the store, with the scripts.
pub(super) struct Session {
    connection: Connection,
    base: String,
    instance: String,
    /// The hashes of the scripts.
    scripts: Scripts,
}

#[derive(Default)]
struct Scripts {
    write: String,
    claim: String,
    beat: String,
    orphans: String,
}

impl Session {
    pub(super) async fn open(
        server: &RedisServer,
        prefix: &str,
        instance: &str,
    ) -> anyhow::Result<Self> {
        let mut session = Self {
            connection: Connection::open(server).await?,
            base: format!("{prefix}:{{d}}:"),
            instance: instance.to_owned(),
            scripts: Scripts::default(),
        };
        let mut commands = pipeline();
        for script in [WRITE, CLAIM, BEAT, ORPHANS] {
            commands.cmd("SCRIPT").arg("LOAD").arg(script);
        }
        let mut hashes = session.ask(&commands).await?.into_iter();
        session.scripts = Scripts {
            write: string(hashes.next())?,
            claim: string(hashes.next())?,
            beat: string(hashes.next())?,
            orphans: string(hashes.next())?,
        };
        Ok(session)
    }

    async fn ask(&mut self, commands: &Pipeline) -> anyhow::Result<Vec<Value>> {
        let bounds = Bounds {
            patience: PATIENCE,
            bytes: LARGE,
        };
        let responses = self.connection.request(commands, bounds).await?;
        let responses: RedisResult<Vec<Value>> = responses.into_iter().collect();
        Ok(responses?)
    }

    fn script(&self, hash: &str) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(hash).arg(1).arg(&self.base).arg(&self.instance);
        command
    }

    /// Writes changes. Returns the records of dialogs that other nodes have claimed. `now` in seconds since the Unix epoch.
    pub(super) async fn write(
        &mut self,
        writes: &[Write],
        now: u32,
    ) -> anyhow::Result<Vec<StoredDialog>> {
        let mut commands = pipeline();
        for part in writes.chunks(AT_ONCE) {
            let mut command = self.script(&self.scripts.write);
            for Write { key, dialog, ended } in part {
                let left = dialog.expires_at.saturating_sub(now).saturating_add(KEPT);
                let life = ended.map_or(u64::from(left) * 1_000, |_| 0);
                command.arg(name(*key)).arg(life).arg(dialog.expires_at);
                command.arg(u8::from(*ended == Some(true)));
                command.arg(dialog.encode());
            }
            commands.add_command(command);
        }
        let mut refused = Vec::new();
        for response in self.ask(&commands).await? {
            refused.extend(dialogs(response)?);
        }
        Ok(refused)
    }

    /// Claims dialogs, of each of which one of two keys is known. Returns for each what the store has.
    pub(super) async fn claim(
        &mut self,
        keys: &[[u64; 2]],
    ) -> anyhow::Result<Vec<Option<StoredDialog>>> {
        let mut commands = pipeline();
        for part in keys.chunks(AT_ONCE) {
            let mut command = self.script(&self.scripts.claim);
            for key in part.iter().flatten() {
                command.arg(name(*key));
            }
            commands.add_command(command);
        }
        let mut found = Vec::with_capacity(keys.len());
        for response in self.ask(&commands).await? {
            found.extend(list(Some(response))?.into_iter().map(dialog));
        }
        if found.len() != keys.len() {
            bail!("the response has another length than the request");
        }
        Ok(found)
    }

    /// Says that this node is alive. Its dialogs that expired long before `now` (seconds since the Unix epoch) leave its index.
    pub(super) async fn beat(&mut self, now: u32) -> anyhow::Result<Beat> {
        let mut command = self.script(&self.scripts.beat);
        command.arg(now.saturating_sub(2 * KEPT)).arg(NEWS);
        let mut response = list(Some(self.one(command).await?))?.into_iter();
        let is_new = matches!(response.next(), Some(Value::Int(1)));
        let lost = response.next().unwrap_or(Value::Nil);
        Ok(Beat {
            is_new,
            lost: dialogs(lost)?,
        })
    }

    /// Claims at most `most` dialogs of a node that has not said for `after` that it is alive.
    pub(super) async fn orphans(
        &mut self,
        after: Duration,
        most: usize,
    ) -> anyhow::Result<Vec<StoredDialog>> {
        let mut command = self.script(&self.scripts.orphans);
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        command.arg(millis).arg(most);
        dialogs(self.one(command).await?)
    }

    /// The names of the keys of this node's dialogs, for [`read`](Self::read).
    pub(super) async fn own(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut command = cmd("ZRANGE");
        command.arg(format!("{}of:{}", self.base, self.instance));
        command.arg(0).arg(-1);
        byte_strings(list(Some(self.one(command).await?))?)
    }

    /// Reads dialogs.
    pub(super) async fn read(&mut self, names: &[Vec<u8>]) -> anyhow::Result<Vec<StoredDialog>> {
        let mut command = cmd("MGET");
        for name in names {
            command.arg([self.base.as_bytes(), b"c:", name].concat());
        }
        dialogs(self.one(command).await?)
    }

    async fn one(&mut self, command: Cmd) -> anyhow::Result<Value> {
        let mut commands = pipeline();
        commands.add_command(command);
        let response = self.ask(&commands).await?.into_iter().next();
        Ok(response.unwrap_or(Value::Nil))
    }
}

/// The last part of the key of a dialog.
fn name(key: u64) -> String {
    format!("{key:016x}")
}

/// The records in a list. Others are not ours.
fn dialogs(value: Value) -> anyhow::Result<Vec<StoredDialog>> {
    Ok(list(Some(value))?.into_iter().filter_map(dialog).collect())
}

fn dialog(value: Value) -> Option<StoredDialog> {
    match value {
        Value::BulkString(bytes) => StoredDialog::decode(&bytes),
        _ => None,
    }
}
