//! `tandem user import`: imports subscribers from a file.
//!
//! ```text
//! lines ─▶ entries ─▶ sorted ─▶ a batch ─▶ hashed on all cores ─▶ one transaction ─▶ a pause for the server
//!                                 ▲────────────────────── the next batch ──────────────────────┘
//! ```

mod line;
mod progress;

use super::report::{Failure, grouped, rate};
use super::{Session, hash};
use clap::Args;
use line::{Entry, Lines};
use progress::Progress;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_store::{Existing, Imported, Store, Subscriber};

/// Lines that are read and sorted by name before they are written. The table has the same order, so neighbours share database pages. For a
/// file in random order, this takes a third of the time of writing line by line.
const WINDOW: usize = 100_000;
/// Subscribers per transaction. A transaction of this size takes about ten milliseconds, during which a running server's saves wait.
const BATCH: usize = 5_000;
/// Errors about lines that are printed; the rest is counted.
const MAX_COMPLAINTS: u64 = 20;
/// Maximum number of unconfigured domains to warn about.
const MAX_FOREIGN_DOMAINS: usize = 5;

/// The file to import, and the handling of existing subscribers.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// File to import, in UTF-8; - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Set the passwords of existing subscribers from the file; without this option, existing subscribers are reported and kept unchanged.
    #[arg(long)]
    replace: bool,
    /// Only check the file for invalid lines, without touching the database.
    #[arg(long)]
    dry_run: bool,
}

impl Session<'_> {
    pub(super) fn import(&mut self, arguments: &ImportArguments) -> Result<(), Failure> {
        let (input, size) = open(&arguments.file)?;
        let store = if arguments.dry_run {
            None
        } else {
            Some(self.open_or_create()?)
        };
        let existing = if arguments.replace {
            Existing::Replace
        } else {
            Existing::Keep
        };
        let mut work = Work {
            session: self,
            name: display_name(&arguments.file),
            store: store.as_ref(),
            existing,
            tally: Tally::default(),
            foreign: BTreeSet::new(),
            progress: Progress::new(size),
            begun: Instant::now(),
        };
        let done = work.run(Lines::new(input));
        let tally = work.finish();
        if let Some(store) = store {
            self.runtime.block_on(store.close());
        }
        // Printed after a failure too: subscribers imported before it stay.
        let said = self.say(format_args!("{}", tally.summary(arguments)));
        done.and(said)?;
        if tally.refused + tally.kept > 0 {
            Err(Failure::Incomplete)
        } else {
            Ok(())
        }
    }
}

fn open(file: &Path) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), None));
    }
    let failed =
        |error: io::Error| Failure::Failed(format!("{} cannot be read: {error}", file.display()));
    let opened = File::open(file).map_err(failed)?;
    let data = opened.metadata().map_err(failed)?;
    if data.is_dir() {
        return Err(Failure::Failed(format!(
            "{} is a directory; give a file with lines username,domain,password",
            file.display()
        )));
    }
    Ok((
        Box::new(BufReader::with_capacity(1 << 16, opened)),
        data.is_file().then_some(data.len()),
    ))
}

fn display_name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

/// A running import.
struct Work<'w, 's> {
    session: &'w mut Session<'s>,
    /// File name for error messages.
    name: String,
    /// `None` in a dry run.
    store: Option<&'w Store>,
    existing: Existing,
    tally: Tally,
    /// Domains that are not configured.
    foreign: BTreeSet<String>,
    progress: Progress,
    begun: Instant,
}

impl Work<'_, '_> {
    fn run(&mut self, mut lines: Lines<Box<dyn BufRead>>) -> Result<(), Failure> {
        let mut window: Vec<Entry> = Vec::new();
        loop {
            match lines.next_entry() {
                Ok(Some(Ok(entry))) => {
                    self.tally.lines += 1;
                    self.notice_domain(&entry.domain);
                    window.push(entry);
                }
                Ok(Some(Err(problem))) => {
                    self.tally.lines += 1;
                    self.tally.refused += 1;
                    self.complain(lines.number(), &problem.to_string());
                }
                Ok(None) => return self.write(&mut window, lines.consumed()),
                Err(error) => {
                    self.write(&mut window, lines.consumed())?;
                    return Err(Failure::Failed(format!(
                        "{}:{}: reading stopped: {error}; the lines before it are imported",
                        self.name,
                        lines.number()
                    )));
                }
            }
            if window.len() == WINDOW {
                self.write(&mut window, lines.consumed())?;
            }
        }
    }

    /// Writes and removes all entries. `consumed`: bytes of the file read so far.
    fn write(&mut self, window: &mut Vec<Entry>, consumed: u64) -> Result<(), Failure> {
        // The sort is stable, so of two lines for one name the later one still wins.
        window.sort_by(|one, other| {
            (&one.username, &one.domain).cmp(&(&other.username, &other.domain))
        });
        let mut kept = Vec::new();
        for batch in window.chunks(BATCH) {
            let positions = self.write_batch(batch)?;
            kept.extend(
                positions
                    .into_iter()
                    .filter_map(|position| batch.get(position)),
            );
            self.show_progress(consumed);
        }
        kept.sort_by_key(|entry| entry.line);
        for entry in kept {
            let problem = format!(
                "{}@{} already exists and was kept unchanged",
                entry.username, entry.domain
            );
            self.complain(entry.line, &problem);
        }
        window.clear();
        Ok(())
    }

    /// Writes a batch, then pauses for half the time that took, so that a running server can save its changes.
    /// Returns the positions of subscribers that were kept unchanged.
    fn write_batch(&mut self, batch: &[Entry]) -> Result<Vec<usize>, Failure> {
        let Some(store) = self.store else {
            self.tally.added += batch.len() as u64;
            return Ok(Vec::new());
        };
        let subscribers = hashed(batch);
        let begun = Instant::now();
        let Imported {
            added,
            replaced,
            kept,
        } = self
            .session
            .runtime
            .block_on(store.subscribers().import(&subscribers, self.existing))?;
        let held = begun.elapsed();
        self.tally.added += added;
        self.tally.replaced += replaced;
        self.tally.kept += kept.len() as u64;
        std::thread::sleep((held / 2).min(Duration::from_millis(200)));
        Ok(kept)
    }

    fn show_progress(&mut self, consumed: u64) {
        let done = self.tally.done();
        let share = u128::from(consumed) * u128::from(done) / u128::from(self.tally.lines.max(1));
        let bytes = u64::try_from(share).unwrap_or(consumed);
        self.progress
            .update(done, bytes, self.begun.elapsed(), self.session.notes);
    }

    fn complain(&mut self, line: u64, problem: &str) {
        self.tally.complaints += 1;
        if self.tally.complaints <= MAX_COMPLAINTS {
            let Self {
                progress,
                session,
                name,
                ..
            } = self;
            progress.aside(|| session.note(format_args!("{name}:{line}: {problem}")));
        }
    }

    fn notice_domain(&mut self, domain: &str) {
        let known =
            self.session.domains.iter().any(|own| own == domain) || self.foreign.contains(domain);
        if known || self.foreign.len() >= MAX_FOREIGN_DOMAINS {
            return;
        }
        self.foreign.insert(domain.to_owned());
        let Self {
            progress, session, ..
        } = self;
        progress.aside(|| session.warn_of_foreign(domain));
    }

    /// Removes the progress line and reports the number of suppressed errors.
    fn finish(self) -> Tally {
        self.progress.finish();
        let unsaid = self.tally.complaints.saturating_sub(MAX_COMPLAINTS);
        if unsaid > 0 {
            self.session.note(format_args!(
                "{}: and {} more lines like these",
                self.name,
                grouped(unsaid)
            ));
        }
        Tally {
            spent: self.begun.elapsed(),
            ..self.tally
        }
    }
}

/// Converts entries to subscribers; the password hashes are computed on all cores.
fn hashed(batch: &[Entry]) -> Vec<Subscriber> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = batch.len().div_ceil(threads).max(1);
    let hash_all = |entries: &[Entry]| -> Vec<Subscriber> {
        entries
            .iter()
            .map(|entry| {
                hash::subscriber(
                    entry.username.clone(),
                    entry.domain.clone(),
                    &entry.password,
                )
            })
            .collect()
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = batch
            .chunks(share)
            .map(|part| (part, scope.spawn(move || hash_all(part))))
            .collect();
        // If a thread fails, which only a bug can cause, this thread does its part.
        parts
            .into_iter()
            .flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| hash_all(part)))
            .collect()
    })
}

/// Counts of the lines by result.
#[derive(Debug, Default)]
struct Tally {
    lines: u64,
    added: u64,
    replaced: u64,
    kept: u64,
    refused: u64,
    complaints: u64,
    spent: Duration,
}

impl Tally {
    /// Lines with a result.
    fn done(&self) -> u64 {
        self.added + self.replaced + self.kept + self.refused
    }

    fn summary(&self, arguments: &ImportArguments) -> String {
        let verb = if arguments.dry_run {
            "would be imported"
        } else {
            "added"
        };
        let mut parts = vec![format!("{} {verb}", grouped(self.added))];
        for (count, what) in [
            (self.replaced, "replaced"),
            (
                self.kept,
                "already exist and were kept unchanged (--replace sets their passwords from the file)",
            ),
            (self.refused, "refused"),
        ] {
            if count > 0 {
                parts.push(format!("{} {what}", grouped(count)));
            }
        }
        format!(
            "{} lines in {:.1} s ({} per second): {}",
            grouped(self.lines),
            self.spent.as_secs_f64(),
            grouped(rate(self.lines, self.spent)),
            parts.join(", ")
        )
    }
}
