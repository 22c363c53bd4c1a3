//! The name of a server among those that share a database.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name, in bytes, as for a label of the DNS.
const MAX_LENGTH: usize = 63;

/// Names a server among those that share a database: 1 to 63 ASCII letters, digits, `-`, `.` and `_`. A server must keep its name when it
/// restarts, because it deletes only those saved bindings that carry its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a server that shares its database with no other one.
impl Default for NodeName {
    fn default() -> Self {
        Self("tandem".into())
    }
}

impl FromStr for NodeName {
    type Err = InvalidNodeName;

    fn from_str(name: &str) -> Result<Self, InvalidNodeName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(allowed) {
            Ok(Self(name.into()))
        } else {
            Err(InvalidNodeName(name.to_owned()))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A text that is not a [`NodeName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid node name \"{0}\": use 1 to {MAX_LENGTH} ASCII letters, digits, \"-\", \".\" and \"_\""
)]
pub struct InvalidNodeName(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_the_name_of_a_file() {
        let longest = "n".repeat(63);
        for name in ["a", "node-1.example_org", &longest] {
            assert_eq!(name.parse::<NodeName>().expect(name).as_str(), name);
        }
        let too_long = "n".repeat(64);
        for name in ["", "a/b", "node 1", "n\u{f6}de", "a\0b", &too_long] {
            let message = name.parse::<NodeName>().expect_err(name).to_string();
            assert!(message.contains("1 to 63 ASCII letters"), "{message}");
        }
    }
}
