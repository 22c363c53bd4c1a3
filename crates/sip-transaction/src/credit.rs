//! Limits how many bytes may be sent to an unproven address: a few times the bytes received from it (three in QUIC, RFC 9000 section 8.1).
//! Otherwise a forged source address would turn the server into an amplifier.

/// Bytes that a provisional response must leave for the final response and its repetition. If less is left, no provisional response is
/// sent. The client then retransmits its request, which adds credit.
const RESERVE: u32 = 1200;

/// The bytes that a server transaction may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit(u32);

impl Credit {
    /// For known senders, and for senders whose address a reliable transport has proved.
    pub(crate) const UNLIMITED: Self = Self(u32::MAX);

    /// The credit for a request of `size` bytes.
    pub(crate) fn of_request(size: usize, factor: u32) -> Self {
        let mut credit = Self(0);
        credit.earn(size, factor);
        credit
    }

    pub(crate) const fn is_limited(self) -> bool {
        self.0 != u32::MAX
    }

    /// Adds credit for a retransmission of the request.
    pub(crate) fn earn(&mut self, size: usize, factor: u32) {
        if self.is_limited() {
            let earned = u32::try_from(size)
                .unwrap_or(u32::MAX)
                .saturating_mul(factor);
            self.0 = self.0.saturating_add(earned).min(u32::MAX - 1);
        }
    }

    /// Spends `size` bytes; `false` if the credit is too small.
    pub(crate) fn spend(&mut self, size: usize) -> bool {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let left = self.0.checked_sub(size);
        if let Some(left) = left.filter(|_| self.is_limited()) {
            self.0 = left;
        }
        left.is_some() || !self.is_limited()
    }

    /// Like [`Credit::spend`], for a provisional response.
    pub(crate) fn spend_on_provisional(&mut self, size: usize) -> bool {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.0 >= size.saturating_add(RESERVE) && self.spend(size as usize)
    }

    /// Sets the credit to zero.
    pub(crate) const fn exhaust(&mut self) {
        if self.is_limited() {
            self.0 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_what_came_goes_out_and_no_more() {
        let mut credit = Credit::of_request(900, 3);
        assert!(credit.spend_on_provisional(400) && credit.spend_on_provisional(500));
        assert!(
            !credit.spend_on_provisional(601),
            "the rest is for the final response"
        );
        assert!(credit.spend(1800) && !credit.spend(1));
        credit.earn(10, 3);
        assert!(credit.spend(30) && !credit.spend(1));
    }

    #[test]
    fn who_is_known_has_no_limit() {
        let mut credit = Credit::UNLIMITED;
        assert!(credit.spend(usize::MAX) && credit.spend_on_provisional(1 << 20));
        credit.exhaust();
        assert_eq!(credit, Credit::UNLIMITED);
    }
}
