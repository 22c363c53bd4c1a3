//! The identities of phones: patterns of names and passwords, and what each phone remembers of its registrar.

use crate::credentials::Nonce;
use sip_message::digest::Account;

/// A pattern for names or passwords. `{}` is replaced by the phone's number, `{:04}` by the number padded with zeros to four digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    /// Minimum number of digits. `None`: the pattern has no number.
    digits: Option<usize>,
    after: String,
}

/// Maximum number of digits for padding.
const MAX_DIGITS: usize = 20;

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::with_number(text).ok_or_else(|| {
            format!(
                "`{text}` has no placeholder for the phone's number: add {{}}, or {{:04}} to pad with zeros to four digits"
            )
        })
    }
}

impl Pattern {
    /// A number between two texts.
    pub(crate) fn around(before: &str, after: &str) -> Self {
        Self {
            before: before.to_owned(),
            digits: Some(1),
            after: after.to_owned(),
        }
    }

    /// A pattern that may lack the number: then all phones share the text.
    ///
    /// # Errors
    /// Never; argument parsers must return a `Result`.
    pub fn password(text: &str) -> Result<Self, String> {
        Ok(Self::with_number(text).unwrap_or_else(|| Self {
            before: text.to_owned(),
            digits: None,
            after: String::new(),
        }))
    }

    fn with_number(text: &str) -> Option<Self> {
        let places = text.match_indices('{').map(|(place, _)| place);
        places.into_iter().find_map(|place| {
            let (before, rest) = text.split_at_checked(place)?;
            let (format, after) = rest.strip_prefix('{')?.split_once('}')?;
            let digits = match format {
                "" => 1,
                _ => format.strip_prefix(":0")?.parse().ok()?,
            };
            (1..=MAX_DIGITS).contains(&digits).then(|| Self {
                before: before.to_owned(),
                digits: Some(digits),
                after: after.to_owned(),
            })
        })
    }

    pub(super) fn write(&self, number: u32, into: &mut Vec<u8>) {
        into.extend_from_slice(self.before.as_bytes());
        if let Some(digits) = self.digits {
            let length = number.checked_ilog10().unwrap_or(0) as usize + 1;
            into.extend(std::iter::repeat_n(b'0', digits.saturating_sub(length)));
            push_decimal(into, u64::from(number));
        }
        into.extend_from_slice(self.after.as_bytes());
    }

    /// The number of the phone with this name.
    pub(super) fn number(&self, name: &[u8]) -> Option<u32> {
        let number = name
            .strip_prefix(self.before.as_bytes())?
            .strip_suffix(self.after.as_bytes())?;
        let is_padded = number.len() == self.digits?;
        let is_plain = number.len() > self.digits? && !number.starts_with(b"0");
        let is_number = number.iter().all(u8::is_ascii_digit);
        if !is_number || !(is_padded || is_plain) {
            return None;
        }
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

/// The subscribers of a run.
#[derive(Clone, Debug)]
pub struct Subscribers {
    /// Number of the first phone.
    pub first: u32,
    /// Number of phones.
    pub count: u32,
    /// Pattern of user names.
    pub user: Pattern,
    /// Pattern of passwords.
    pub password: Pattern,
    /// Domain, which is also the realm.
    pub domain: String,
}

/// What one phone remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Phone {
    /// `CSeq` of its last REGISTER.
    pub(super) cseq: u32,
    /// Whether the server has its contact.
    pub(super) is_registered: bool,
    /// Whether the server also has contacts of others for it.
    pub(super) is_shared: bool,
    /// Nonce of the registrar.
    pub(super) nonce: Option<Box<Nonce>>,
    /// Nonce of the proxy.
    pub(super) proxy_nonce: Option<Box<Nonce>>,
}

impl Phone {
    pub(super) fn nonce(&mut self, is_proxy: bool) -> &mut Option<Box<Nonce>> {
        if is_proxy {
            &mut self.proxy_nonce
        } else {
            &mut self.nonce
        }
    }
}

/// Appends the credentials of a phone.
pub(super) fn authorize(
    subscribers: &Subscribers,
    number: u32,
    nonce: &mut Nonce,
    (method, uri): (&[u8], &[u8]),
    into: &mut Vec<u8>,
) {
    let (mut user, mut password) = (Vec::with_capacity(24), Vec::with_capacity(24));
    subscribers.user.write(number, &mut user);
    subscribers.password.write(number, &mut password);
    let account = Account {
        username: &user,
        password: &password,
    };
    nonce.authorize(account, method, uri, into);
}

/// Appends a number. Hand-written, because the cost of formatting would show in the figures.
pub(super) fn push_decimal(into: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut place = digits.len();
    loop {
        place -= 1;
        digits[place] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return into.extend_from_slice(&digits[place..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_makes_names_and_finds_their_numbers() {
        let pattern: Pattern = "phone{}x".parse().unwrap();
        for number in [0, 7, 10, 4_294_967_295] {
            let mut name = Vec::new();
            pattern.write(number, &mut name);
            assert_eq!(name, format!("phone{number}x").into_bytes());
            assert_eq!(pattern.number(&name), Some(number));
        }
        for stranger in ["phone", "phonex", "phone12", "fone12x", "phone1.2x"] {
            assert_eq!(pattern.number(stranger.as_bytes()), None, "{stranger}");
        }
        assert!("alice".parse::<Pattern>().is_err());
    }

    #[test]
    fn numbers_have_as_many_digits_as_the_pattern_says() {
        let pattern: Pattern = "phone{:04}".parse().unwrap();
        for (number, name) in [(0, "phone0000"), (711, "phone0711"), (12_345, "phone12345")] {
            let mut written = Vec::new();
            pattern.write(number, &mut written);
            assert_eq!(String::from_utf8_lossy(&written), name);
            assert_eq!(pattern.number(name.as_bytes()), Some(number));
        }
        for stranger in ["phone711", "phone00711", "phone+711", "phone"] {
            assert_eq!(pattern.number(stranger.as_bytes()), None, "{stranger}");
        }
        for wrong in [
            "phone{:4}",
            "phone{:0}",
            "phone{:04",
            "phone{:099}",
            "phone{x}",
        ] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_phones_may_have_one_password() {
        let written = |text: &str| {
            let mut written = Vec::new();
            Pattern::password(text).unwrap().write(7, &mut written);
            String::from_utf8(written).unwrap()
        };
        assert_eq!(written("secret"), "secret");
        assert_eq!(written("se{cr}et"), "se{cr}et");
        assert_eq!(written("secret{}"), "secret7");
        assert_eq!(written("{x}{:02}"), "{x}07");
    }
}
