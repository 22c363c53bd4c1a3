//! The value type for a Redis or Valkey server: its URL, which may contain a password.
use super::{Setting, Wrong, quoted, text};
use crate::redis_connection::RedisServer;
use toml::de::DeValue;

/// The parameters that a URL of a Unix socket may have. Others have none.
const PARAMETERS: [&str; 3] = ["db", "user", "pass"];

/// The URL of a Redis or Valkey server, with the password, if there is one.
#[derive(Clone, Debug)]
pub struct RedisUrl {
    text: String,
    server: RedisServer,
}

impl RedisUrl {
    /// The example in the reference.
    pub fn example() -> Option<Self> {
        Self::parse("redis://127.0.0.1:6379/0").ok()
    }

    fn parse(text: &str) -> Result<Self, Wrong> {
        let (scheme, _) = text.split_once(':').unwrap_or_default();
        if scheme.ends_with("unix") {
            let (_, query) = text.split_once('?').unwrap_or_default();
            let mut keys = query.split('&').filter_map(|pair| pair.split('=').next());
            if !query.is_empty() && !keys.all(|key| PARAMETERS.contains(&key)) {
                return Err(Wrong::hint("its parameters are db, user and pass"));
            }
        } else if text.contains(['?', '#']) {
            return Err(Wrong::hint(
                "it has no parameters; write ? and # in a password as %3F and %23",
            ));
        }
        match RedisServer::parse(text) {
            Some(server) => Ok(Self {
                text: text.to_owned(),
                server,
            }),
            None if scheme.ends_with("+sentinel") => Err(Wrong::hint(
                "the URL of sentinels is redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/PRIMARY[/DB]",
            )),
            None => Err(Wrong::default()),
        }
    }

    /// Where the server is, and how to authenticate there.
    pub const fn server(&self) -> &RedisServer {
        &self.server
    }

    /// The same URL to show, without the password.
    #[must_use]
    pub fn shown(&self) -> Self {
        Self {
            text: tandem_store::shown_url(&self.text),
            server: self.server.clone(),
        }
    }

    /// The text of the URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RedisUrl {}

impl Setting for RedisUrl {
    fn expected() -> String {
        "the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        Self::parse(text).map_err(|wrong| Wrong {
            is_secret: text.contains(['@', '?']),
            ..wrong
        })
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.text))
    }
}
