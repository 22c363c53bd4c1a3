//! Max-Breadth (RFC 5393 section 5): how many branches a request may have at a time, ours and those of all proxies downstream
//! together. A fork divides it among its branches; what a branch had is free again when the branch has ended.
//!
//! Every copy leaves with exactly one such header field (section 5.3.3); an ACK, which is never forked, passes as it is.

use sip_message::{HeaderName, Message};

/// What a request without the header field has, and the most that we accept.
const MOST: u8 = 60;

/// The Incoming Max-Breadth of a request. A value that is no number counts as none.
pub(super) fn incoming(request: &Message<'_>) -> u8 {
    request
        .header(HeaderName::MaxBreadth)
        .and_then(parse)
        .map_or(MOST, |breadth| breadth.min(u32::from(MOST)) as u8)
}

/// Whether a request has this Max-Breadth as it stands.
pub(super) fn is_written(request: &Message<'_>, breadth: u8) -> bool {
    request
        .header(HeaderName::MaxBreadth)
        .is_some_and(|value| parse(value) == Some(u32::from(breadth)))
        && request.values(HeaderName::MaxBreadth).nth(1).is_none()
}

/// What the branch at that place gets when `breadth` is divided among so many: together they get all of it.
pub(super) const fn share(breadth: u8, branches: u8, place: u8) -> u8 {
    match (breadth.checked_div(branches), breadth.checked_rem(branches)) {
        (Some(share), Some(rest)) if place < rest => share + 1,
        (Some(share), _) => share,
        (None, _) => breadth,
    }
}

fn parse(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        for (breadth, branches) in [(60, 7), (60, 60), (5, 2), (1, 1), (3, 3)] {
            let shares: Vec<u8> = (0..branches)
                .map(|place| share(breadth, branches, place))
                .collect();
            assert_eq!(shares.iter().sum::<u8>(), breadth, "{shares:?}");
            assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        }
    }
}
