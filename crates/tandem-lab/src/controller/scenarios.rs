//! The folder of scenarios: lists, validates and stores files.

use super::plan::{Call, Division, POD};
use crate::run::Spacing;
use crate::scenario::{Pairing, Rules, read, validate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum number of files listed.
const MAX_FILES: usize = 1_000;
/// Maximum number of calls per scenario: a week with several hundred a minute, or three hours with a thousand a second.
const MAX_CALLS: u64 = 10_000_000;
/// Maximum length of a file name.
const LONGEST_NAME: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) phones: u64,
    /// From the first call to the last.
    pub(super) seconds: f64,
    /// Maximum number of calls that begin within a second.
    pub(super) peak: u64,
    /// Why the scenario cannot run: all mistakes with their lines.
    pub(super) problems: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Scenarios {
    folder: PathBuf,
    /// The convention for caller and callee.
    pairing: Pairing,
    /// Results for files that have not changed since.
    known: Mutex<BTreeMap<String, (Version, Entry)>>,
}

/// Modification time and length of a file.
type Version = (Option<SystemTime>, u64);

impl Scenarios {
    pub(super) fn new(folder: PathBuf, division: Division) -> Self {
        Self {
            folder,
            pairing: match division {
                Division::Ranges => Pairing::Any,
                Division::Pods => Pairing::EvenPodCallsOdd { pod: POD },
            },
            known: Mutex::default(),
        }
    }

    /// All files, sorted by name. Reads the files that are new or changed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn list(&self) -> Result<Vec<Entry>, String> {
        let refused = |error| format!("cannot read the folder {}: {error}", self.folder.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            if let Some(name) = name.to_str().filter(|name| is_name(name)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        names.truncate(MAX_FILES);
        let mut known = std::mem::take(&mut *self.known());
        let entries = names.into_iter().map(|name| {
            let version = version(&self.folder.join(&name));
            let entry = match known.remove(&name) {
                Some((of, entry)) if of == version => entry,
                _ => self.entry(&name),
            };
            (name, (version, entry))
        });
        let entries: BTreeMap<_, _> = entries.collect();
        let list = entries.values().map(|(_, entry)| entry.clone()).collect();
        *self.known() = entries;
        Ok(list)
    }

    /// The calls of a file, sorted by time.
    ///
    /// # Errors
    /// The file cannot be read, or it has mistakes: all of them with their lines.
    pub(super) fn calls(&self, name: &str) -> Result<Vec<Call>, Vec<String>> {
        if !is_name(name) {
            return Err(vec![format!(
                "`{name}` is not a valid scenario name: use letters, digits, `.`, `_` and `-`, and end it with .csv"
            )]);
        }
        let path = self.folder.join(name);
        calls(name, self.pairing, || File::open(&path).map(BufReader::new))
    }

    /// Stores a valid file in the folder, and returns its summary.
    ///
    /// # Errors
    /// All mistakes with their lines, or a write error.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<Entry, Vec<String>> {
        if !is_name(name) {
            return Err(vec![format!(
                "`{name}` is not a valid scenario name: use letters, digits, `.`, `_` and `-`, and end it with .csv"
            )]);
        }
        let entry = summary(name, &calls(name, self.pairing, || Ok(content))?);
        let path = self.folder.join(name);
        let beside = self.folder.join(format!(".{name}.part"));
        let written = fs::write(&beside, content).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|error| vec![format!("cannot write {}: {error}", path.display())])?;
        Ok(entry)
    }

    fn entry(&self, name: &str) -> Entry {
        match self.calls(name) {
            Ok(calls) => summary(name, &calls),
            Err(problems) => Entry {
                problems,
                ..summary(name, &[])
            },
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Version, Entry)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(path: &Path) -> Version {
    let metadata = fs::metadata(path).ok();
    let written = metadata
        .as_ref()
        .and_then(|metadata| metadata.modified().ok());
    (written, metadata.map_or(0, |metadata| metadata.len()))
}

/// Whether this is a valid file name.
fn is_name(name: &str) -> bool {
    let is_allowed =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
        && Path::new(name)
            .extension()
            .is_some_and(|extension| extension == "csv")
}

/// Reads the file twice: first for mistakes, then for calls.
fn calls<R: BufRead>(
    name: &str,
    pairing: Pairing,
    open: impl Fn() -> io::Result<R>,
) -> Result<Vec<Call>, Vec<String>> {
    let failed = |error: io::Error| vec![format!("{name}: {error}")];
    let rules = Rules {
        phones: None,
        pairing,
        // Evenly spaced calls satisfy these rules as well.
        spacing: Spacing::Poisson,
    };
    let verdict = validate(read(open().map_err(failed)?), &rules).map_err(failed)?;
    let mistakes = &verdict.mistakes;
    let mut problems: Vec<String> = mistakes
        .first
        .iter()
        .map(|mistake| format!("{name}:{mistake}"))
        .collect();
    if mistakes.more > 0 {
        problems.push(format!("{name}: {} more mistakes", mistakes.more));
    }
    if verdict.calls > MAX_CALLS {
        problems.push(format!(
            "{name}: {} calls, but at most {MAX_CALLS} can run: split the file",
            verdict.calls
        ));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut calls = Vec::with_capacity(verdict.calls as usize);
    let mut elapsed_ms = 0;
    for line in read(open().map_err(failed)?).flatten() {
        let call = line.call;
        calls.push(Call {
            at: Duration::from_millis(elapsed_ms),
            caller: call.caller,
            callee: call.callee,
        });
        elapsed_ms += u64::from(call.wait_ms);
    }
    if calls.len() as u64 == verdict.calls {
        Ok(calls)
    } else {
        Err(vec![format!(
            "{name}: the file changed while it was being read: try again"
        )])
    }
}

fn summary(name: &str, calls: &[Call]) -> Entry {
    let mut phones: Vec<u32> = calls
        .iter()
        .flat_map(|call| [call.caller, call.callee])
        .collect();
    phones.sort_unstable();
    phones.dedup();
    let seconds = calls.chunk_by(|one, other| one.at.as_secs() == other.at.as_secs());
    Entry {
        name: name.to_owned(),
        calls: calls.len() as u64,
        phones: phones.len() as u64,
        seconds: calls.last().map_or(0.0, |last| last.at.as_secs_f64()),
        peak: seconds.map(<[Call]>::len).max().unwrap_or(0) as u64,
        problems: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{HEADER, Mistakes};

    fn problems(lines: &str) -> Vec<String> {
        let text = format!("{HEADER}\n{lines}");
        calls("a.csv", Pairing::Any, || Ok(text.as_bytes()))
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn calls_are_due_when_the_waits_before_them_are_over() {
        let text = format!("{HEADER}\n0400;0500;700;0;2\n0600;0700;300;0;2\n0400;0500;0;1;2\n");
        let calls = calls("a.csv", Pairing::Any, || Ok(text.as_bytes())).unwrap();
        let at: Vec<u128> = calls.iter().map(|call| call.at.as_millis()).collect();
        assert_eq!(at, [0, 700, 1_000]);
        let entry = summary("a.csv", &calls);
        assert_eq!((entry.calls, entry.phones, entry.peak), (3, 4, 2));
    }

    #[test]
    fn holes_wrong_order_and_what_is_no_number_are_named_with_file_and_line() {
        for (lines, wanted) in [
            ("", "a.csv:1: no call"),
            (
                "0400;0500;1000;0;1\n0400;0500;1000;5;1\n",
                "a.csv:3: second 5, but the waits up to here add up to 1.000 s",
            ),
            (
                "0400;0500;1000;0;1\n0400;0500;1000;1;1\n0400;0500;1000;0;1\n",
                "a.csv:4: second 0 follows second 1",
            ),
            ("0400;bob;1000;0;1\n", "a.csv:2: callee `bob`"),
            ("0400;0400;1000;0;1\n", "a.csv:2: phone 400 calls itself"),
        ] {
            let problems = problems(lines);
            assert!(
                problems.len() == 1 && problems[0].starts_with(wanted),
                "{lines}: {problems:?}"
            );
        }
        assert_eq!(problems(&"x\n".repeat(100)).len(), Mistakes::MOST + 1);
    }

    #[test]
    fn by_pods_an_even_one_calls_the_odd_one_after_it() {
        let text = format!("{HEADER}\n0400;0500;1000;0;1\n0711;0811;1000;1;1\n");
        let open = || Ok(text.as_bytes());
        assert!(calls("a.csv", Pairing::Any, open).is_ok());
        let pods = Pairing::EvenPodCallsOdd { pod: POD };
        let problems = calls("a.csv", pods, open).unwrap_err();
        assert!(
            problems[0].starts_with("a.csv:3: caller 711 is in pod 7"),
            "{problems:?}"
        );
    }

    #[test]
    fn only_sound_files_get_into_the_folder_and_only_under_their_name() {
        let folder = std::env::temp_dir().join(format!("tandem-scenarios-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let scenarios = Scenarios::new(folder.clone(), Division::Ranges);
        let sound = format!("{HEADER}\n1;2;1000;0;1\n");
        for name in ["../a.csv", "a", ".a.csv", "a/b.csv", "", "a.txt", "ä.csv"] {
            assert!(scenarios.put(name, sound.as_bytes()).is_err(), "{name}");
        }
        assert!(scenarios.put("a.csv", b"nonsense").is_err());
        assert_eq!(scenarios.list().unwrap(), []);
        assert_eq!(scenarios.put("a.csv", sound.as_bytes()).unwrap().calls, 1);
        fs::write(folder.join("b.csv"), "nonsense").unwrap();
        let list = scenarios.list().unwrap();
        assert_eq!((list[0].calls, list[0].problems.len()), (1, 0));
        assert_eq!((list[1].calls, list[1].problems.len()), (0, 1));
        fs::remove_dir_all(&folder).unwrap();
        assert!(
            scenarios
                .list()
                .unwrap_err()
                .contains("cannot read the folder")
        );
    }
}
