//! The file of a database: which one a URL names, and how it is created.

use super::fault;
use crate::backend::IfMissing;
use crate::error::StoreError;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// How to write a URL.
const URL_FORM: &str = "sqlite:FILE, for example sqlite:tandem.db";

/// The file that a `sqlite:` URL names. `sqlite:a.db` and `sqlite://a.db` are relative to the working directory; `sqlite:/a.db` and
/// `sqlite:///a.db` are absolute.
pub(crate) fn path_of(url: &str) -> Result<PathBuf, StoreError> {
    let refused = |problem: &str| StoreError::Url {
        url: url.to_owned(),
        problem: problem.to_owned(),
        form: URL_FORM,
    };
    let (_scheme, rest) = url.split_once(':').unwrap_or_default();
    let file = rest.strip_prefix("//").unwrap_or(rest);
    if file.is_empty() {
        return Err(refused("it names no file"));
    }
    if file.starts_with(':') {
        return Err(refused(
            "an in-memory database would lose all data when the program ends",
        ));
    }
    if file.contains(['?', '#', '\0']) {
        return Err(refused("parameters are not supported"));
    }
    Ok(PathBuf::from(file))
}

/// Makes sure that a writable file exists, and returns whether it was created now. Only its owner may read a new file: for digest, an HA1
/// is as good as the password.
pub(super) fn prepare(url: &str, path: &Path, if_missing: IfMissing) -> Result<bool, StoreError> {
    let refused = |problem: String| StoreError::Open {
        url: url.to_owned(),
        problem,
        remedy: fault::CHECK_ACCESS,
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return Err(refused(format!(
            "no such directory: {}",
            directory.display()
        )));
    }
    if path.is_dir() {
        return Err(refused(format!("{} is a directory", path.display())));
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(if_missing != IfMissing::FailAndLeave);
    match options.open(path) {
        Ok(file) => {
            // A creation that was interrupted leaves an empty file.
            let empty = file.metadata().is_ok_and(|data| data.len() == 0);
            return Ok(empty);
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(refused(format!("{}: {error}", path.display())));
        }
        Err(_) if if_missing != IfMissing::Create => {
            return Err(StoreError::NoDatabase {
                url: url.to_owned(),
                problem: format!("no file {} in {}", path.display(), working_directory()),
                remedy: "change to the working directory of the server, or set database.url in the configuration",
            });
        }
        Err(_) => {}
    }
    for_owner_only(&mut options).create_new(true);
    match options.open(path) {
        Ok(_) => Ok(true),
        // Another process has just created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(refused(format!(
            "{} cannot be created: {error}",
            path.display()
        ))),
    }
}

fn working_directory() -> String {
    std::env::current_dir().map_or_else(
        |_| "the working directory".to_owned(),
        |path| path.display().to_string(),
    )
}

/// Only the user that creates the file may read it.
pub(super) fn for_owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_beside_the_working_directory_or_from_the_root() {
        for (url, path) in [
            ("sqlite:tandem.db", "tandem.db"),
            ("sqlite://tandem.db", "tandem.db"),
            ("SQLITE:data/tandem.db", "data/tandem.db"),
            ("sqlite:/var/lib/tandem.db", "/var/lib/tandem.db"),
            ("sqlite:///var/lib/tandem.db", "/var/lib/tandem.db"),
        ] {
            assert_eq!(path_of(url).expect(url), PathBuf::from(path), "{url}");
        }
    }

    #[test]
    fn a_bad_url_is_refused_with_the_reason_and_the_right_form() {
        for (url, reason) in [
            ("sqlite:", "names no file"),
            ("sqlite://", "names no file"),
            ("sqlite::memory:", "in-memory"),
            ("sqlite:a.db?mode=ro", "parameters are not"),
        ] {
            let message = path_of(url).expect_err(url).to_string();
            assert!(message.contains(reason), "{url}: {message}");
            assert!(message.contains("sqlite:tandem.db"), "{url}: {message}");
        }
    }
}
