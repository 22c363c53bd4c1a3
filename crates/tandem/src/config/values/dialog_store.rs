//! The value type for where calls in progress are saved.
use super::redis_url::RedisUrl;
use super::{Setting, Wrong, quoted, text};
use toml::de::DeValue;

/// Where calls in progress are saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialogStore {
    /// In the database, each node its own.
    Database,
    /// In a Redis or Valkey server, where other nodes of the fleet can adopt them.
    Redis(Box<RedisUrl>),
}

impl DialogStore {
    /// The server that the nodes of a fleet share.
    pub const fn redis(&self) -> Option<&RedisUrl> {
        match self {
            Self::Database => None,
            Self::Redis(url) => Some(url),
        }
    }

    /// The same store to show, without the password.
    #[must_use]
    pub fn shown(&self) -> Self {
        match self {
            Self::Database => Self::Database,
            Self::Redis(url) => Self::Redis(Box::new(url.shown())),
        }
    }
}

impl Setting for DialogStore {
    fn expected() -> String {
        format!("\"database\", or {}", RedisUrl::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match text(value)? {
            "database" => Ok(Self::Database),
            other if other.starts_with("valkey") => Err(Wrong {
                is_secret: other.contains(['@', '?']),
                ..Wrong::hint("write redis:// for a Valkey server, too")
            }),
            _ => RedisUrl::read(value).map(|url| Self::Redis(Box::new(url))),
        }
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Self::Database => Some(quoted("database")),
            Self::Redis(url) => url.to_toml(),
        }
    }
}
