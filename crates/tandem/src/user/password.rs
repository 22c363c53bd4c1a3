//! Reads a password from the command line, a file, standard input or a prompt. It is hashed at once and never stored.

use super::report::Failure;
use anyhow::{Context as _, ensure};
use clap::Args;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

/// Maximum length in bytes. A longer input is a mistake, such as a whole file on standard input.
const MAX_PASSWORD: usize = 1024;

/// Source of the password; without an option, a prompt.
#[derive(Debug, Default, Args)]
pub struct PasswordArguments {
    /// Password; other users of this machine can see it in the process list while the command runs.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// File whose first line is the password; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl PasswordArguments {
    /// The password from the command line, a file or standard input; `None` if the terminal must prompt for it.
    pub(super) fn given(&self) -> Result<Option<String>, Failure> {
        let password = match (&self.password, &self.password_file) {
            (Some(given), _) => given.clone(),
            (None, Some(file)) => from_file(file).map_err(|problem| Failure::failed(&problem))?,
            (None, None) if io::stdin().is_terminal() => return Ok(None),
            (None, None) => {
                return Err(Failure::Usage(
                    "no password: give its file with --password-file, or - to read a line from standard input"
                        .to_owned(),
                ));
            }
        };
        check(&password).map_err(|problem| Failure::Usage(problem.to_string()))?;
        Ok(Some(password))
    }
}

/// Prompts twice on the terminal, without echo.
pub(super) fn ask(username: &str, domain: &str) -> Result<String, Failure> {
    let prompt = |prompt: String| {
        rpassword::prompt_password(prompt).map_err(|error| {
            Failure::Failed(format!(
                "the password cannot be read from the terminal: {error}"
            ))
        })
    };
    let password = prompt(format!("Password for {username}@{domain}: "))?;
    check(&password).map_err(|problem| Failure::failed(&problem))?;
    if prompt("Repeat the password: ".to_owned())? != password {
        return Err(Failure::Failed(
            "the two passwords differ; nothing was changed".to_owned(),
        ));
    }
    Ok(password)
}

/// Checks that this can be a password; returns the reason if not.
pub(super) fn check(password: &str) -> anyhow::Result<()> {
    ensure!(!password.is_empty(), "the password is empty");
    ensure!(
        password.len() <= MAX_PASSWORD,
        "the password has {} bytes; at most {MAX_PASSWORD} are allowed",
        password.len()
    );
    ensure!(
        !password.contains(char::is_control),
        "the password contains a control character, which no phone can send; remove it"
    );
    Ok(())
}

fn from_file(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return first_line(io::stdin().lock())
            .context("the password cannot be read from standard input");
    }
    File::open(file)
        .and_then(|opened| first_line(BufReader::new(opened)))
        .with_context(|| format!("the password file {} cannot be read", file.display()))
}

/// The first line without its end. It is read no further than the longest password.
fn first_line(input: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.take(MAX_PASSWORD as u64 + 3).read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_first_line_counts_without_its_end() {
        for (input, password) in [
            ("secret\n", "secret"),
            ("secret\r\n", "secret"),
            ("secret", "secret"),
            ("se cret \nmore\n", "se cret "),
        ] {
            assert_eq!(first_line(input.as_bytes()).expect(input), password);
        }
    }

    #[test]
    fn an_endless_line_is_read_to_its_bound_and_refused() {
        let endless = BufReader::new(io::repeat(b'x').take(1 << 30));
        let read = first_line(endless).expect("bounded");
        let problem = check(&read).expect_err("too long").to_string();
        assert!(problem.contains("at most 1024"), "{problem}");
    }

    #[test]
    fn what_no_phone_can_send_is_no_password() {
        assert!(check("").is_err());
        assert!(check("a\tb").is_err());
        assert!(check(&"x".repeat(MAX_PASSWORD + 1)).is_err());
        assert!(check("pässwörd, \"quoted\"").is_ok());
    }
}
