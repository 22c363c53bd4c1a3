//! Files that reports are written to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Whether all of them can be written: before the work, not after it.
pub(super) fn check<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
    for path in paths {
        let is_new = !path.exists();
        let opened = File::options().append(true).create(true).open(path);
        opened.map_err(|error| unwritable(path, &error))?;
        if is_new {
            // Nobody shall take an empty file for a report.
            fs::remove_file(path).map_err(|error| unwritable(path, &error))?;
        }
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// What a person is told of a file that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot write {}: {error}", path.display()))
}
