//! Max-Breadth (RFC 5393 section 5): how many concurrent branches a request may have, ours and those of all downstream
//! proxies together. A fork divides it among its branches. The share of a branch is free again when the branch has
//! ended.
//!
//! Every copy leaves with exactly one Max-Breadth header field (section 5.3.3). An ACK is never forked, so it passes
//! unchanged.

use sip_message::{HeaderName, Message};

/// Default for a request without the header field, and the maximum that we accept.
const MOST: u8 = 60;

/// Returns the Incoming Max-Breadth of a request. A value that is not a number counts as absent.
pub(crate) fn incoming(request: &Message<'_>) -> u8 {
    request
        .header(HeaderName::MaxBreadth)
        .and_then(parse)
        .map_or(MOST, |breadth| breadth.min(u32::from(MOST)) as u8)
}

/// Whether a request already has exactly this Max-Breadth.
pub(crate) fn is_written(request: &Message<'_>, breadth: u8) -> bool {
    request
        .header(HeaderName::MaxBreadth)
        .is_some_and(|value| parse(value) == Some(u32::from(breadth)))
        && request.values(HeaderName::MaxBreadth).nth(1).is_none()
}

/// Share of the branch at `place` when `breadth` is divided among `branches`. The shares add up to `breadth`.
pub(crate) const fn share(breadth: u8, branches: u8, place: u8) -> u8 {
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
