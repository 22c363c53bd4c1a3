//! The files that reports are written to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Checks that all files are writable, before the measurement rather than after it.
pub(super) fn check<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
    for path in paths {
        let is_new = !path.exists();
        let opened = File::options().append(true).create(true).open(path);
        opened.map_err(|error| unwritable(path, &error))?;
        if is_new {
            // An empty file must not pass for a report.
            fs::remove_file(path).map_err(|error| unwritable(path, &error))?;
        }
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// The error for a file that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot write {}: {error}", path.display()))
}
