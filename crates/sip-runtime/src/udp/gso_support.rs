//! Remembers where the kernel accepts no GSO batches: the path has a small MTU or is encrypted.

use rustix::io::Errno;
use std::net::IpAddr;
use tracing::warn;

/// Limit on remembered addresses. Above it, GSO is turned off for all addresses.
pub(super) const MOST: usize = 8;

/// Which addresses may get GSO batches.
#[derive(Debug)]
pub(super) struct GsoSupport {
    /// Whether the kernel segments datagrams at all.
    pub(super) gso_enabled: bool,
    /// The addresses for which it does not.
    pub(super) gso_disabled_for: Vec<IpAddr>,
}

impl GsoSupport {
    pub(super) const fn new(gso_enabled: bool) -> Self {
        Self {
            gso_enabled,
            gso_disabled_for: Vec::new(),
        }
    }

    pub(super) fn may_use_gso(&self, address: IpAddr) -> bool {
        self.gso_enabled && !self.gso_disabled_for.contains(&address)
    }

    /// Records an address for which a GSO batch was rejected but its messages, sent one by one, were not.
    pub(super) fn remember(&mut self, address: IpAddr, error: Errno) {
        let is_new = self.may_use_gso(address);
        if is_new && self.gso_disabled_for.len() < MOST {
            self.gso_disabled_for.push(address);
        } else if is_new {
            warn!(%error, "UDP segmentation (GSO) fails for many addresses: each datagram is now sent on its own");
            self.gso_enabled = false;
        }
    }
}

/// Whether an error may concern GSO and not a temporary condition. A full buffer, for example, says nothing about the path.
pub(super) fn is_gso_error(error: Errno) -> bool {
    matches!(
        error,
        Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::NOPROTOOPT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_is_no_reason_to_give_trains_up() {
        for error in [Errno::AGAIN, Errno::NOBUFS, Errno::NETUNREACH, Errno::PERM] {
            assert!(!is_gso_error(error), "{error}");
        }
        for error in [Errno::INVAL, Errno::IO, Errno::MSGSIZE] {
            assert!(is_gso_error(error), "{error}");
        }
    }
}
