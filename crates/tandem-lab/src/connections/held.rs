//! Connections held by child processes, because one process may not open enough descriptors for all of them.

use super::options::Target;
use anyhow::anyhow;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Descriptors of a process that are not connections.
const OTHERS: u64 = 100;

/// The child processes and what they hold.
pub(super) struct Held<'t> {
    target: &'t Target,
    holders: Vec<Holder>,
    /// Connections that one process may hold.
    each: u64,
}

struct Holder {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    users: u64,
    open: u64,
}

impl<'t> Held<'t> {
    pub(super) fn new(target: &'t Target) -> Self {
        let limit = sip_runtime::raise_descriptor_limit().unwrap_or(u64::MAX);
        Self {
            target,
            holders: Vec::new(),
            each: limit.saturating_sub(OTHERS).clamp(1, 50_000),
        }
    }

    /// Number of open connections.
    pub(super) fn open(&self) -> u64 {
        self.holders.iter().map(|holder| holder.open).sum()
    }

    /// Opens connections for the users from `first`. Returns how many failed, and why the first of them failed.
    pub(super) fn add(&mut self, mut first: u64, mut count: u64) -> anyhow::Result<(u64, String)> {
        let (mut failed, mut reason) = (0, String::new());
        while count > 0 {
            let each = self.each;
            if self.holders.last().is_none_or(|last| last.users >= each) {
                self.holders.push(Holder::start(self.target)?);
            }
            let Some(holder) = self.holders.last_mut() else {
                break;
            };
            let share = count.min(each - holder.users);
            let (failures, why) = holder.add(first, share)?;
            failed += failures;
            if reason.is_empty() {
                reason = why;
            }
            first += share;
            count -= share;
        }
        Ok((failed, reason))
    }
}

impl Holder {
    fn start(target: &Target) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["bench", "hold-connections"])
            .args(target.to_arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || anyhow!("the process that holds the connections has no pipe");
        let output = process.stdout.take().ok_or_else(missing)?;
        Ok(Self {
            input: Some(process.stdin.take().ok_or_else(missing)?),
            output: BufReader::new(output),
            process,
            users: 0,
            open: 0,
        })
    }

    fn add(&mut self, first: u64, count: u64) -> anyhow::Result<(u64, String)> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{first} {count}")?;
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let ended = || anyhow!("a process that holds connections has exited");
        let mut words = line.trim().splitn(3, ' ');
        let open = words.next().and_then(|word| word.parse().ok());
        self.open = open.ok_or_else(ended)?;
        let failed = words.next().and_then(|word| word.parse().ok());
        self.users += count;
        Ok((
            failed.ok_or_else(ended)?,
            words.next().unwrap_or_default().to_owned(),
        ))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process exits when its input ends.
        self.input = None;
        let _ = self.process.wait();
    }
}
