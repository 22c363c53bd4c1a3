//! The state file: what operators ordered, for the next start of the controller.

use crate::membership::Saved;
use anyhow::Context as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;

/// Longest state file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// A file that is replaced as a whole.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// What is in it. The lock orders writers.
    written: Mutex<Saved>,
}

impl StateFile {
    /// Reads the file, which need not exist.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Saved)> {
        let saved = read(path).with_context(|| {
            let file = path.display();
            format!("the state file {file} is unusable; repair it, or remove it to forget which nodes drain")
        })?;
        let file = Self {
            path: path.to_owned(),
            written: Mutex::new(saved.clone()),
        };
        Ok((file, saved))
    }

    /// Writes what `state` returns, if it is new. `state` is called when earlier writers are done, so that the last state stays.
    pub(crate) async fn save(&self, state: impl FnOnce() -> Saved + Send) -> anyhow::Result<()> {
        let mut written = self.written.lock().await;
        let state = state();
        if *written == state {
            return Ok(());
        }
        let json = serde_json::to_vec_pretty(&state)?;
        let path = self.path.clone();
        let replaced = tokio::task::spawn_blocking(move || replace(&path, &json)).await?;
        replaced
            .with_context(|| format!("the state file {} cannot be written", self.path.display()))?;
        *written = state;
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<Saved> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Saved::default()),
        Ok(found) if found.len() > LARGEST => anyhow::bail!("it has more than {LARGEST} bytes"),
        _ => {}
    }
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// A crash leaves the old file or the new one.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".new");
    let mut file = File::create(&next)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Override;

    #[tokio::test]
    async fn what_is_saved_is_there_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.json");
        let (file, saved) = StateFile::open(&path).expect("a new file");
        assert_eq!(saved, Saved::default());
        let mut state = Saved::default();
        state.overrides.insert("u-1".to_owned(), Override::Drain);
        file.save(|| state.clone()).await.expect("saved");
        assert_eq!(StateFile::open(&path).expect("it is there").1, state);
        std::fs::write(&path, "{").expect("written");
        let error = format!("{:#}", StateFile::open(&path).expect_err("no JSON"));
        assert!(error.contains("state.json is unusable"), "{error}");
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_written_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub").join("state.json");
        let (file, _) = StateFile::open(&path).expect("a new file");
        let mut state = Saved::default();
        state.overrides.insert("u-1".to_owned(), Override::Remove);
        assert!(file.save(|| state.clone()).await.is_err());
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        file.save(|| state.clone()).await.expect("saved");
        assert_eq!(StateFile::open(&path).expect("it is there").1, state);
    }
}
