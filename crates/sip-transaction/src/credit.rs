//! How much may be sent to an address that has not proved that it asked: a few times what came from there (three in QUIC, RFC 9000
//! section 8.1). Otherwise a forged source address would turn the server into an amplifier.

/// What a provisional response leaves for the final one, and for sending that again. Where there is less, no provisional response
/// stops the client from sending its request again, which earns more.
const RESERVE: u32 = 1200;

/// What a server transaction may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit(u32);

impl Credit {
    /// For senders that are known, or that a reliable transport has proved to be where they say.
    pub(crate) const UNLIMITED: Self = Self(u32::MAX);

    /// For a request of so many bytes.
    pub(crate) fn of_request(size: usize, factor: u32) -> Self {
        let mut credit = Self(0);
        credit.earn(size, factor);
        credit
    }

    pub(crate) const fn is_limited(self) -> bool {
        self.0 != u32::MAX
    }

    /// The request came again.
    pub(crate) fn earn(&mut self, size: usize, factor: u32) {
        if self.is_limited() {
            let earned = u32::try_from(size)
                .unwrap_or(u32::MAX)
                .saturating_mul(factor);
            self.0 = self.0.saturating_add(earned).min(u32::MAX - 1);
        }
    }

    /// Whether so many bytes may go out; then they are spent.
    pub(crate) fn spend(&mut self, size: usize) -> bool {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let left = self.0.checked_sub(size);
        if let Some(left) = left.filter(|_| self.is_limited()) {
            self.0 = left;
        }
        left.is_some() || !self.is_limited()
    }

    /// The same for a provisional response.
    pub(crate) fn spend_on_provisional(&mut self, size: usize) -> bool {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.0 >= size.saturating_add(RESERVE) && self.spend(size as usize)
    }

    /// Nothing is left.
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
