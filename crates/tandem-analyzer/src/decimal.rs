//! Nanoseconds as decimal seconds, exactly.

use crate::capture::Time;
use std::fmt;

/// Nanoseconds, written as seconds.
pub struct Seconds(pub i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanoseconds = self.0.unsigned_abs();
        let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        write!(f, "{sign}{whole}.{rest:09}")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Seconds(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost() {
        assert_eq!(
            Time::new(1_665_853_217, 50_000_001).to_string(),
            "1665853217.050000001"
        );
        assert_eq!(Seconds(7).to_string(), "0.000000007");
        assert_eq!(Seconds(-1_500_000_000).to_string(), "-1.500000000");
        assert_eq!(Seconds(i64::MIN).to_string(), "-9223372036.854775808");
    }
}
