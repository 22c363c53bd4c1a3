//! The secret that a caller sends as `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).

use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;

/// Shortest token, in characters. Shorter ones are too easy to guess.
const SHORTEST: usize = 16;
/// Longest token file, in bytes.
const LONGEST: u64 = 4_096;

/// A token. Only its hash is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Why a token is not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenError(String);

impl fmt::Display for TokenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TokenError {}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// Creates a token from at least 16 characters that a header field may carry, without spaces.
    ///
    /// # Errors
    /// The text is too short, or contains other characters.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "must consist of visible ASCII characters without spaces";
            return Err(TokenError(problem.to_owned()));
        }
        if text.len() < SHORTEST {
            return Err(TokenError(format!(
                "has {} characters; at least {SHORTEST} are required (`openssl rand -hex 32` creates a suitable one)",
                text.len()
            )));
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Reads the text of a token file, without surrounding white space.
    ///
    /// # Errors
    /// The file cannot be read, or contains no valid token.
    pub fn read_text(file: &Path) -> Result<String, TokenError> {
        let failed = |problem: &dyn fmt::Display| {
            TokenError(format!("the token file {}: {problem}", file.display()))
        };
        let length = std::fs::metadata(file)
            .map_err(|error| failed(&error))?
            .len();
        if length > LONGEST {
            return Err(failed(&format!("is longer than {LONGEST} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        let text = text.trim();
        Self::new(text).map_err(|error| failed(&error))?;
        Ok(text.to_owned())
    }

    /// Reads a token file.
    ///
    /// # Errors
    /// As [`Token::read_text`].
    pub fn read(file: &Path) -> Result<Self, TokenError> {
        Self::new(&Self::read_text(file)?)
    }

    /// Whether this is the token. Every wrong token takes the same time, because the comparison covers the whole of
    /// both digests.
    pub fn is(&self, shown: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        let pairs = self.0.iter().zip(shown);
        pairs.fold(0, |different, (own, other)| different | (own ^ other)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_and_printable() {
        for (text, problem) in [
            ("0123456789abcde", "15 characters"),
            ("", "0 characters"),
            ("0123456789 abcdef", "without spaces"),
            ("0123456789abcdef\u{e9}", "visible ASCII"),
        ] {
            let error = Token::new(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let token = Token::new("0123456789abcdef").expect("long enough");
        assert!(token.is(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0123456789abcdeF", b"0123456789abcdef0"] {
            assert!(!token.is(wrong));
        }
    }

    #[test]
    fn a_token_file_may_end_in_a_line_feed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef\n").expect("written");
        assert!(
            Token::read(file.path())
                .expect("valid")
                .is(b"0123456789abcdef")
        );
        std::fs::write(file.path(), "short\n").expect("written");
        let error = Token::read(file.path()).expect_err("too short").to_string();
        let name = file.path().display().to_string();
        assert!(
            error.contains(&name) && error.contains("5 characters"),
            "{error}"
        );
    }
}
