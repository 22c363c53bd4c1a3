//! Files that reports are written to.

use std::fs;
use std::io;
use std::path::Path;

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
        .map_err(|error| io::Error::other(format!("cannot write {}: {error}", path.display())))
}
