//! The Date header field (RFC 3261 section 20.17). Phones without a clock set their time by it.

use sip_transport::Time;

const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Appends `Sat, 13 Nov 2010 23:29:00 GMT`.
pub(super) fn push_date(into: &mut Vec<u8>, now: Time) {
    let seconds = now.unix_seconds();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    into.extend_from_slice(WEEKDAYS.get((days % 7) as usize).copied().unwrap_or(b"Thu"));
    into.extend_from_slice(b", ");
    push_two(into, day);
    into.push(b' ');
    into.extend_from_slice(MONTHS.get(month as usize).copied().unwrap_or(b"Jan"));
    into.push(b' ');
    push_two(into, year / 100 % 100);
    push_two(into, year % 100);
    into.push(b' ');
    push_two(into, second / 3600);
    into.push(b':');
    push_two(into, second / 60 % 60);
    into.push(b':');
    push_two(into, second % 60);
    into.extend_from_slice(b" GMT");
}

fn push_two(into: &mut Vec<u8>, number: u64) {
    into.extend([b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

/// Converts a day since 1970-01-01 into year, month (from 0) and day of the month (from 1). Years are counted from March,
/// so that the leap day is the last day of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // Days since 0000-03-01.
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_writes_them() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (1_793_404_800, "Sat, 31 Oct 2026 00:00:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            let mut date = Vec::new();
            push_date(&mut date, Time::from_unix_seconds(seconds));
            assert_eq!(String::from_utf8(date).unwrap(), expected);
        }
    }
}
