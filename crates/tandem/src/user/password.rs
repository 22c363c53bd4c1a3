//! Reads a password from the command line, standard input or a prompt. It is hashed at once and never stored.

use super::report::Failure;
use clap::Args;
use std::io::{BufRead, IsTerminal};

/// Maximum length in bytes. A longer input is a mistake, such as a whole file on standard input.
const MAX_PASSWORD: usize = 1024;

/// Source of the password; without either option, a prompt.
#[derive(Debug, Default, Args)]
pub struct PasswordArguments {
    /// Password; other users of this machine can see it in the process list while the command runs
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_stdin")]
    pub password: Option<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub password_stdin: bool,
}

impl PasswordArguments {
    /// The password from the command line or standard input; `None` if the terminal must prompt for it.
    pub(super) fn given(&self) -> Result<Option<String>, Failure> {
        let password = match &self.password {
            Some(given) => given.clone(),
            None if self.password_stdin => from_lines(&mut std::io::stdin().lock())?,
            None if std::io::stdin().is_terminal() => return Ok(None),
            None => {
                return Err(Failure::Usage(
                    "no password: give it with --password, or as a line on standard input with --password-stdin"
                        .to_owned(),
                ));
            }
        };
        check(&password).map_err(Failure::Usage)?;
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
    check(&password).map_err(Failure::Failed)?;
    if prompt("Repeat the password: ".to_owned())? != password {
        return Err(Failure::Failed(
            "the two passwords differ; nothing was changed".to_owned(),
        ));
    }
    Ok(password)
}

/// Checks that this can be a password; returns the reason if not.
pub(super) fn check(password: &str) -> Result<(), String> {
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    if password.len() > MAX_PASSWORD {
        return Err(format!(
            "the password has {} bytes; at most {MAX_PASSWORD} are allowed",
            password.len()
        ));
    }
    if password.contains(char::is_control) {
        return Err(
            "the password contains a control character, which no phone can send; remove it"
                .to_owned(),
        );
    }
    Ok(())
}

fn from_lines(input: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    let mut input = std::io::Read::take(input, MAX_PASSWORD as u64 + 3);
    input.read_line(&mut line).map_err(|error| {
        Failure::Failed(format!(
            "the password cannot be read from standard input: {error}"
        ))
    })?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_standard_input_the_first_line_counts_without_its_end() {
        for (input, password) in [
            ("secret\n", "secret"),
            ("secret\r\n", "secret"),
            ("secret", "secret"),
            ("se cret \nmore\n", "se cret "),
        ] {
            assert_eq!(from_lines(&mut input.as_bytes()).expect(input), password);
        }
    }

    #[test]
    fn an_endless_line_is_read_to_its_bound_and_refused() {
        let read = from_lines(&mut std::io::BufReader::new(std::io::Read::take(
            std::io::repeat(b'x'),
            1 << 30,
        )))
        .expect("bounded");
        assert!(check(&read).expect_err("too long").contains("at most 1024"));
    }

    #[test]
    fn what_no_phone_can_send_is_no_password() {
        assert!(check("").is_err());
        assert!(check("a\tb").is_err());
        assert!(check(&"x".repeat(MAX_PASSWORD + 1)).is_err());
        assert_eq!(check("pässwörd, \"quoted\""), Ok(()));
    }
}
