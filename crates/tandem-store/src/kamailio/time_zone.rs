//! The time zone in which Kamailio writes times. Its columns have no time zone.

use super::reader::PERMANENT;
use crate::error::StoreError;

const REMEDY: &str = "set database.time_zone to a name such as \"Europe/Berlin\", or to an offset such as \"+01:00\"";

/// A name of the time zone database, or an offset east of Greenwich.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeZone {
    Utc,
    Named(String),
    Offset(String),
}

/// The error about a time zone that can't be used.
pub(super) fn unknown(url: &str, problem: &str) -> StoreError {
    StoreError::Schema {
        url: url.to_owned(),
        problem: format!("database.time_zone: {problem}"),
        remedy: REMEDY,
    }
}

impl TimeZone {
    /// Reads a name or an offset. The result contains nothing that ends a literal in SQL.
    pub(super) fn new(url: &str, text: &str) -> Result<Self, StoreError> {
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/:".contains(&byte);
        if text.is_empty() || !text.bytes().all(is_safe) {
            let problem = format!("\"{}\" is no time zone", text.escape_debug());
            return Err(unknown(url, &problem));
        }
        Ok(match text.as_bytes() {
            b"UTC" => Self::Utc,
            [b'+' | b'-', ..] => Self::Offset(text.to_owned()),
            _ => Self::Named(text.to_owned()),
        })
    }

    /// PostgreSQL's expression for a column in seconds since the Unix epoch.
    pub(super) fn postgres(&self, column: &str) -> String {
        let zone = match self {
            Self::Utc => "'UTC'".to_owned(),
            Self::Named(name) => format!("'{name}'"),
            // As a text, an offset would count west of Greenwich.
            Self::Offset(offset) => format!("INTERVAL '{offset}'"),
        };
        format!("CAST(EXTRACT(EPOCH FROM {column} AT TIME ZONE {zone}) AS BIGINT)")
    }

    /// MySQL's expression for a column in seconds since the Unix epoch; NULL if the server does not know the zone.
    pub(super) fn mysql(&self, column: &str) -> String {
        let zone = match self {
            // Names need tables that few servers have.
            Self::Utc => "+00:00",
            Self::Named(text) | Self::Offset(text) => text,
        };
        format!(
            "TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', CONVERT_TZ({column}, '{zone}', '+00:00'))"
        )
    }
}

/// The condition for a binding that lasts longer than `now`, in the SQL of both databases.
pub(super) fn is_live(expires: &str, now: u32) -> String {
    format!("({expires} > {now} OR {expires} <= {PERMANENT})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_could_end_a_literal_is_no_time_zone() {
        for text in ["", "UTC'; DROP TABLE location; --", "Europe/Ber lin"] {
            assert!(
                TimeZone::new("postgres://db/kamailio", text).is_err(),
                "{text}"
            );
        }
        for text in ["UTC", "Europe/Berlin", "Etc/GMT+5", "+05:30", "-03:00"] {
            assert!(
                TimeZone::new("postgres://db/kamailio", text).is_ok(),
                "{text}"
            );
        }
    }
}
