//! Origins of web pages (RFC 6454).
use super::{Listed, Setting, Wrong, quoted, text};
use sip_message::Uri;
use toml::de::DeValue;

/// The origin of a page in the notation of browsers: scheme, host, and a port other than the default; or `*` for any origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(pub String);

impl Origin {
    /// Matches every page.
    pub const ANYWHERE: &'static str = "*";
}

impl Setting for Origin {
    fn expected() -> String {
        "a web origin, such as \"https://phone.example.org\", or \"*\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let lower = text.to_ascii_lowercase();
        if lower == Self::ANYWHERE {
            return Ok(Self(lower));
        }
        let host = ["https://", "http://"]
            .iter()
            .find_map(|scheme| lower.strip_prefix(scheme))
            .ok_or_else(|| Wrong::hint("start with https:// or http://"))?;
        if host.contains('/') {
            return Err(Wrong::hint("remove the path"));
        }
        let uri = format!("sip:{host}");
        match Uri::parse(uri.as_bytes()) {
            Some(uri)
                if uri.user.is_none()
                    && uri.params.as_bytes().is_empty()
                    && uri.headers.is_none() =>
            {
                Ok(Self(lower))
            }
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

impl Listed for Origin {
    fn plural() -> String {
        "origins".to_owned()
    }
}
