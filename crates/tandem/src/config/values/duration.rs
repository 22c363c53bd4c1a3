//! Durations in the file, as the `humantime` crate reads and writes them: `"500ms"`, `"5m"`, `"1h 30m"`.
use super::{Setting, Wrong, quoted, text};
use std::time::Duration;
use toml::de::DeValue;

/// A duration of microseconds.
pub const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A duration of milliseconds.
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A duration of seconds.
pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A duration of hours.
pub const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

/// A duration of days.
pub const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

impl Setting for Duration {
    fn expected() -> String {
        "a duration (\"500ms\", \"5m\", \"1h 30m\")".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        if let DeValue::Integer(number) = value {
            return Err(Wrong::hint(format!("add a unit: \"{}s\"", number.as_str())));
        }
        let text = text(value).map_err(|_| Wrong::default())?;
        humantime::parse_duration(text).map_err(|error| Wrong::hint(error.to_string()))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&humantime::format_duration(*self).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_in_every_unit_and_as_it_is_written() {
        for (text, micros) in [
            ("0s", 0),
            ("50us", 50),
            ("1ms 500us", 1_500),
            ("32s", 32_000_000),
            ("1m 30s", 90_000_000),
            ("1h 30m", 5_400_000_000),
            ("7days", 604_800_000_000),
        ] {
            let read = Duration::read(&DeValue::String(text.into())).expect(text);
            assert_eq!(read, Duration::from_micros(micros));
            assert_eq!(read.to_prose(), text);
        }
        for (text, hint) in [
            ("", "value was empty"),
            ("300", "time unit needed"),
            ("5 eons", "unknown time unit \"eons\""),
            ("-5s", "expected number"),
            ("99999999999999999999s", "number is too large"),
        ] {
            let wrong = Duration::read(&DeValue::String(text.into())).expect_err(text);
            let found = wrong.hint.unwrap_or_default();
            assert!(found.contains(hint), "{text}: {found}");
        }
    }
}
