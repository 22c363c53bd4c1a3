//! Writes a scenario file.

use super::{Call, HEADER};
use std::io::{self, Write};

/// Writes a scenario file and returns its number of calls. Phone numbers are padded with zeros to at least `digits` digits.
///
/// # Errors
/// Those of the output.
pub fn write(
    output: &mut impl Write,
    digits: usize,
    calls: impl IntoIterator<Item = Call>,
) -> io::Result<u64> {
    writeln!(output, "{HEADER}")?;
    let mut written = 0;
    for call in calls {
        let Call {
            caller,
            callee,
            wait_ms,
            second,
            rate,
        } = call;
        write!(
            output,
            "{caller:0digits$};{callee:0digits$};{wait_ms};{second};"
        )?;
        write_rate(output, rate)?;
        written += 1;
    }
    Ok(written)
}

/// Six significant digits, without trailing zeros.
fn write_rate(output: &mut impl Write, rate: f64) -> io::Result<()> {
    if rate.fract() == 0.0 {
        return writeln!(output, "{rate:.0}");
    }
    let magnitude = rate.log10().floor().clamp(-9.0, 5.0) as i32;
    let decimals = usize::try_from(5 - magnitude).unwrap_or(0);
    let text = format!("{rate:.decimals$}");
    let short = if decimals > 0 {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    writeln!(output, "{short}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_written_as_the_format_says() {
        let call = |caller, rate| Call {
            caller,
            callee: caller + 100,
            wait_ms: 1_000,
            second: 3,
            rate,
        };
        let rates = [
            1.0,
            12.5,
            1.0 / 3.0,
            0.001_234_567_89,
            123_456.789,
            100_000.0,
            99.999_999_9,
        ];
        let mut file = Vec::new();
        let written = write(&mut file, 4, rates.map(|rate| call(400, rate))).unwrap();
        assert_eq!(written, 7);
        let text = String::from_utf8(file).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER));
        let expected = [
            "1",
            "12.5",
            "0.333333",
            "0.00123457",
            "123457",
            "100000",
            "100",
        ];
        for (line, rate) in lines.zip(expected) {
            assert_eq!(line, format!("0400;0500;1000;3;{rate}"));
        }
    }
}
