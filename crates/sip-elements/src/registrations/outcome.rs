//! What a response to a REGISTER says, how long to wait after a failure, and what the operator reads in the log.

use sip_message::{HeaderName, Message, NameAddr};
use std::time::Duration;

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1_800);
/// The longest lifetime that a 423 may ask for, in seconds.
const LONGEST_EXPIRES: u32 = 86_400;
/// Longer bindings are refreshed so long before they expire, shorter ones after half their lifetime.
const EARLY: Duration = Duration::from_secs(600);

/// A line for the operator's log about a registration at a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationNotice {
    /// The name of the gateway.
    pub gateway: Box<str>,
    /// What has changed.
    pub change: RegistrationChange,
}

/// What has changed in a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationChange {
    /// The first success, or the first after a failure, with the lifetime that the registrar has granted.
    Registered(Duration),
    /// An attempt has failed.
    Failed {
        /// The final response; `None`: there was none.
        status: Option<u16>,
        /// When the next attempt follows.
        again_in: Duration,
    },
    /// The binding is being removed.
    Leaving,
}

/// The lifetime that a 2xx grants to our Contact: its `expires`, else Expires, else what was asked for (RFC 3261 section 10.3 step 8).
pub(super) fn granted(response: &Message<'_>, contact: &[u8], asked: u32) -> Duration {
    let own = NameAddr::parse(contact).and_then(|contact| contact.uri());
    let contacts = response.values(HeaderName::Contact);
    let mut bindings = contacts.filter_map(NameAddr::parse);
    let binding = bindings.find(|it| {
        let found = it.uri();
        own.is_some_and(|own| found.is_some_and(|found| found.equivalent(&own)))
    });
    let seconds = binding.and_then(|it| it.expires().flatten());
    let seconds = seconds.or_else(|| response.expires().flatten());
    Duration::from_secs(seconds.unwrap_or(asked).into())
}

/// The lifetime that a 423 asks for, in seconds, if it is longer than what was asked for.
pub(super) fn minimum(response: &Message<'_>, asked: u32) -> Option<u32> {
    let value = response.header(HeaderName::MinExpires)?;
    let minimum = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    (asked < minimum && minimum <= LONGEST_EXPIRES).then_some(minimum)
}

/// When to refresh a binding with this lifetime.
pub(super) fn refresh_after(granted: Duration) -> Duration {
    let wait = granted.saturating_sub(EARLY).max(granted / 2);
    wait.max(Duration::from_secs(1))
}

/// The wait after so many failures, with jitter: between half and all of a time that doubles from 30 s to 30 minutes (RFC 5626 section 4.5).
/// A longer `Retry-After` counts, up to 30 minutes.
pub(super) fn back_off(failures: u8, retry_after: Option<Duration>, random: u64) -> Duration {
    let doubled = 1 << failures.saturating_sub(1).min(10);
    let longest = FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT);
    let half = longest / 2;
    let jitter = Duration::from_micros(random % half.as_micros() as u64);
    let asked = retry_after.unwrap_or_default().min(LONGEST_WAIT);
    (half + jitter).max(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn waits_double_up_to_half_an_hour_with_jitter() {
        for (failures, longest) in [(1, 30), (2, 60), (6, 960), (7, 1_800), (255, 1_800)] {
            for random in [0, 1 << 20, u64::MAX] {
                let wait = back_off(failures, None, random);
                let bounds = seconds(longest) / 2..seconds(longest);
                assert!(bounds.contains(&wait), "{failures}: {wait:?}");
            }
        }
        assert_eq!(back_off(1, Some(seconds(100)), 0), seconds(100));
        assert_eq!(back_off(1, Some(seconds(100_000)), 0), LONGEST_WAIT);
    }

    #[test]
    fn a_binding_is_refreshed_early_enough_for_another_attempt() {
        for (granted, expected) in [(3_600, 3_000), (600, 300), (60, 30), (1, 1)] {
            assert_eq!(refresh_after(seconds(granted)), seconds(expected));
        }
    }

    #[test]
    fn the_lifetime_of_our_own_contact_counts() {
        const OURS: &[u8] = b"<sip:trunk@192.0.2.1:5060>";
        for (lines, expected) in [
            (
                "Contact: <sip:other@192.0.2.9>;expires=9, <sip:trunk@192.0.2.1:5060>;expires=60\r\nExpires: 7\r\n",
                60,
            ),
            (
                "Contact: <sip:other@192.0.2.9>;expires=9\r\nExpires: 7\r\n",
                7,
            ),
            ("", 3_600),
        ] {
            let bytes = format!("SIP/2.0 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
            let response = Message::parse(bytes.as_bytes()).expect("a response");
            assert_eq!(
                granted(&response, OURS, 3_600),
                seconds(expected),
                "{lines}"
            );
        }
    }

    #[test]
    fn only_a_longer_lifetime_of_at_most_a_day_follows_a_423() {
        for (value, expected) in [
            ("1800", Some(1_800)),
            ("60", None),
            ("86401", None),
            ("x", None),
        ] {
            let bytes =
                format!("SIP/2.0 423 X\r\nMin-Expires: {value}\r\nContent-Length: 0\r\n\r\n");
            let response = Message::parse(bytes.as_bytes()).expect("a response");
            assert_eq!(minimum(&response, 600), expected, "{value}");
        }
    }
}
