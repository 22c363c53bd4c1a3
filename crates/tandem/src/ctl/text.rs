//! Quantities as people read them.

/// A duration in its largest unit and the next one, such as `3d 4h`, `59m 1s` or `1h`. The rest is cut off.
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let (count, unit, rest, smaller) = match (days, hours, minutes) {
        (0, 0, 0) => (seconds, 's', 0, ' '),
        (0, 0, _) => (minutes, 'm', seconds % 60, 's'),
        (0, ..) => (hours, 'h', minutes % 60, 'm'),
        _ => (days, 'd', hours % 24, 'h'),
    };
    if rest == 0 {
        format!("{count}{unit}")
    } else {
        format!("{count}{unit} {rest}{smaller}")
    }
}

/// Bytes as KiB, or from 1 MiB on as MiB.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn memory(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 20 {
        (1 << 10, "KiB")
    } else {
        (1 << 20, "MiB")
    };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_largest_unit_and_the_next_one() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_541, "59m 1s"),
            (3_600, "1h"),
            (86_399, "23h 59m"),
            (86_400, "1d"),
            (34_567_890, "400d 2h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn memory_has_one_decimal() {
        assert_eq!(memory(54_630_000), "52.1 MiB");
        assert_eq!(memory(1 << 20), "1.0 MiB");
        assert_eq!(memory(1_234), "1.2 KiB");
    }
}
