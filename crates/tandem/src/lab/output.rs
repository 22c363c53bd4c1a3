//! Files that reports are written to.

use std::fs;
use std::io;
use std::path::Path;

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// What a person is told of a file that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot write {}: {error}", path.display()))
}
