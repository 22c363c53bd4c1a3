//! A lock on a file beside the database reserves the name of a node. The kernel releases it when the process ends, however it ends. The file
//! stays: if it were removed, two processes could hold a lock, one on the removed file and one on a new file.

use super::{fault, file};
use crate::backend::{Claim, Fault};
use crate::node_name::NodeName;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The locks that a store holds. Another store of the same process cannot lock the same file, either.
#[derive(Debug, Default)]
pub(super) struct NodeLocks {
    held: Mutex<Vec<File>>,
}

impl NodeLocks {
    /// Reserves the name of a node until [`NodeLocks::release`]. The locked file is named `DATABASE-NODE.lock` and contains the id of the
    /// process.
    pub(super) fn acquire(&self, database: &Path, node: &NodeName) -> Result<Claim, Fault> {
        // Symbolic links to one database must lead to one lock.
        let database = database
            .canonicalize()
            .map_err(|error| unlocked(database, &error))?;
        let mut path = database.clone().into_os_string();
        path.push(format!("-{node}.lock"));
        let path = Path::new(&path);
        let mut file = open(path, &database).map_err(|error| unlocked(path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let by = holder(&mut file, path);
                return Ok(Claim::Held { by });
            }
            Err(TryLockError::Error(error)) => return Err(unlocked(path, &error)),
        }
        // The id only makes the message for the next process better, so a full disk must not prevent the start.
        let _ = file.set_len(0);
        let _ = writeln!(file, "{}", std::process::id());
        self.held().push(file);
        Ok(Claim::Granted)
    }

    /// Gives up all names.
    pub(super) fn release(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, Vec<File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the lock file, or creates it for the owner of the database: a server that root ran once must not keep the usual one out.
///
/// The owner of the directory may be less trusted than this process. A link at this place is therefore not followed, and a file that
/// exists keeps its owner.
fn open(path: &Path, database: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(libc::O_NOFOLLOW);
    match file::for_owner_only(options.clone().create_new(true)).open(path) {
        Ok(created) => {
            let owner = database.metadata()?;
            // Only root may do so. For others it is their own file anyway.
            let _ = fchown(&created, Some(owner.uid()), Some(owner.gid()));
            Ok(created)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        Err(error) => Err(error),
    }
}

fn holder(file: &mut File, path: &Path) -> String {
    let mut text = String::new();
    let path = path.display();
    match file.read_to_string(&mut text) {
        Ok(1..) => format!("process {} has locked {path}", text.trim_end()),
        _ => format!("another process has locked {path}"),
    }
}

fn unlocked(path: &Path, error: &std::io::Error) -> Fault {
    Fault::Unwritable {
        problem: format!("cannot lock {}: {error}", path.display()),
        remedy: fault::CHECK_DISK,
    }
}
