//! Who the phones are: names and passwords by a pattern, and what each remembers of its registrar.

use crate::credentials::{Account, Nonce};

/// Names or passwords of phones: `{}` stands for the phone's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    after: String,
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (before, after) = text
            .split_once("{}")
            .ok_or_else(|| format!("`{text}` has no {{}} where the phone's number is to stand"))?;
        Ok(Self::around(before, after))
    }
}

impl Pattern {
    /// A number between two texts.
    pub(super) fn around(before: &str, after: &str) -> Self {
        let (before, after) = (before.to_owned(), after.to_owned());
        Self { before, after }
    }

    pub(super) fn write(&self, number: u32, into: &mut Vec<u8>) {
        into.extend_from_slice(self.before.as_bytes());
        push_decimal(into, u64::from(number));
        into.extend_from_slice(self.after.as_bytes());
    }

    /// The number of the phone of that name.
    pub(super) fn number(&self, name: &[u8]) -> Option<u32> {
        let number = name
            .strip_prefix(self.before.as_bytes())?
            .strip_suffix(self.after.as_bytes())?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

/// What all phones of a run have in common.
#[derive(Clone, Debug)]
pub struct Subscribers {
    /// Number of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Their names.
    pub user: Pattern,
    /// Their passwords.
    pub password: Pattern,
    /// Their domain, which is the realm, too.
    pub domain: String,
}

/// What one phone remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Phone {
    /// `CSeq` of its last REGISTER.
    pub(super) cseq: u32,
    /// Of its registrar.
    pub(super) nonce: Option<Box<Nonce>>,
    /// Of the proxy it calls through.
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

/// Appends credentials of a phone.
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
        user: &user,
        realm: subscribers.domain.as_bytes(),
        password: &password,
    };
    nonce.authorize(account, method, uri, into);
}

/// Appends a number. Written by hand: formatting would show among the figures.
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
}
