//! Methods.

/// A request method. Methods are case-sensitive (RFC 3261 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the methods")]
pub enum Method<'a> {
    Invite,
    Ack,
    Bye,
    Cancel,
    Register,
    Options,
    Info,
    Prack,
    Update,
    Message,
    Subscribe,
    Notify,
    Refer,
    Publish,
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// Labels for counters: the known methods by name, and `other` for all others, so that peers cannot create labels.
    pub const LABELS: [&'static str; 15] = [
        "INVITE",
        "ACK",
        "BYE",
        "CANCEL",
        "REGISTER",
        "OPTIONS",
        "INFO",
        "PRACK",
        "UPDATE",
        "MESSAGE",
        "SUBSCRIBE",
        "NOTIFY",
        "REFER",
        "PUBLISH",
        "other",
    ];

    /// The index of its label in [`Self::LABELS`].
    pub const fn label_index(&self) -> usize {
        match self {
            Self::Invite => 0,
            Self::Ack => 1,
            Self::Bye => 2,
            Self::Cancel => 3,
            Self::Register => 4,
            Self::Options => 5,
            Self::Info => 6,
            Self::Prack => 7,
            Self::Update => 8,
            Self::Message => 9,
            Self::Subscribe => 10,
            Self::Notify => 11,
            Self::Refer => 12,
            Self::Publish => 13,
            Self::Other(_) => 14,
        }
    }

    /// Parses a method token.
    pub fn from_bytes(token: &'a [u8]) -> Self {
        match token {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"INFO" => Self::Info,
            b"PRACK" => Self::Prack,
            b"UPDATE" => Self::Update,
            b"MESSAGE" => Self::Message,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"REFER" => Self::Refer,
            b"PUBLISH" => Self::Publish,
            other => Self::Other(other),
        }
    }

    /// The method token.
    pub const fn as_bytes(&self) -> &'a [u8] {
        match *self {
            Self::Invite => b"INVITE",
            Self::Ack => b"ACK",
            Self::Bye => b"BYE",
            Self::Cancel => b"CANCEL",
            Self::Register => b"REGISTER",
            Self::Options => b"OPTIONS",
            Self::Info => b"INFO",
            Self::Prack => b"PRACK",
            Self::Update => b"UPDATE",
            Self::Message => b"MESSAGE",
            Self::Subscribe => b"SUBSCRIBE",
            Self::Notify => b"NOTIFY",
            Self::Refer => b"REFER",
            Self::Publish => b"PUBLISH",
            Self::Other(token) => token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive_and_keep_their_token() {
        for (place, token) in Method::LABELS[..14].iter().enumerate() {
            let method = Method::from_bytes(token.as_bytes());
            assert!(!matches!(method, Method::Other(_)), "{token}");
            assert_eq!(method.as_bytes(), token.as_bytes());
            assert_eq!(method.label_index(), place);
            let lower = token.to_lowercase();
            assert_eq!(
                Method::from_bytes(lower.as_bytes()),
                Method::Other(lower.as_bytes())
            );
        }
        let strange = Method::from_bytes(b"RE%47IST%45R");
        assert_eq!(strange.as_bytes(), b"RE%47IST%45R");
        assert_eq!(Method::LABELS[strange.label_index()], "other");
    }
}
