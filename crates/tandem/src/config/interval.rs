//! Durations in the file: `"50us"`, `"500ms"`, `"32s"`, `"5m"`, `"1h"`, `"7d"`, or whole seconds.
use super::value::{Setting, Wrong, quoted, text, whole_number};
use std::time::Duration;
use toml::de::DeValue;

/// A duration with microsecond resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(Duration);

/// Units and their length in microseconds, longest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// An interval of whole seconds.
pub const fn seconds(seconds: u64) -> Interval {
    Interval(Duration::from_secs(seconds))
}

/// An interval of microseconds.
pub const fn micros(micros: u64) -> Interval {
    Interval(Duration::from_micros(micros))
}

/// An interval of milliseconds.
pub const fn millis(millis: u64) -> Interval {
    Interval(Duration::from_millis(millis))
}

/// An interval of hours.
pub const fn hours(hours: u64) -> Interval {
    Interval(Duration::from_secs(hours * 3600))
}

/// An interval of days.
pub const fn days(days: u64) -> Interval {
    Interval(Duration::from_secs(days * 86_400))
}

impl Interval {
    /// The interval as a standard duration.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Whole seconds, capped at `u32::MAX`.
    pub fn whole_seconds(self) -> u32 {
        u32::try_from(self.0.as_secs()).unwrap_or(u32::MAX)
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits)?;
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        let micros = number.parse::<u64>().ok()?.checked_mul(*length)?;
        Some(Self(Duration::from_micros(micros)))
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX);
        if micros == 0 {
            return formatter.write_str("0s");
        }
        let (unit, length) = UNITS
            .iter()
            .find(|(_, length)| micros.is_multiple_of(*length))
            .unwrap_or(&("us", 1));
        write!(formatter, "{}{unit}", micros / length)
    }
}

impl Setting for Interval {
    fn expected() -> String {
        "a duration (\"50us\", \"500ms\", \"32s\", \"5m\", \"1h\", \"7d\", or seconds)".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        if let DeValue::Integer(_) = value {
            return u64::try_from(whole_number(value)?)
                .map(seconds)
                .map_err(|_| Wrong::default());
        }
        let text = text(value).map_err(|_| Wrong::default())?;
        Self::parse(text).ok_or_else(|| {
            let number = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
            if number {
                Wrong::hint("the unit is missing")
            } else {
                Wrong::default()
            }
        })
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_in_its_longest_whole_unit_and_read_back() {
        for (text, micros) in [
            ("50us", 50),
            ("1500us", 1_500),
            ("500ms", 500_000),
            ("32s", 32_000_000),
            ("90s", 90_000_000),
            ("5m", 300_000_000),
            ("1h", 3_600_000_000),
            ("7d", 604_800_000_000),
        ] {
            let interval = Interval::parse(text).unwrap_or(seconds(0));
            assert_eq!(interval.duration(), Duration::from_micros(micros));
            assert_eq!(interval.to_string(), text);
        }
        for wrong in [
            "",
            "s",
            "5",
            "5 weeks",
            "-5s",
            "1.5s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(Interval::parse(wrong), None, "{wrong}");
        }
    }
}
