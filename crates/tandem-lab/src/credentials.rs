//! The phone's side of digest authentication (RFC 7616, RFC 8760): a nonce, its use count, and the credentials made from it.

use sip_message::digest::{self, DigestInput};
use sip_message::{Challenge, HeaderName, Message};

/// The same cnonce for all. It would protect the phone against chosen plain text of a malicious server, which does not matter in a
/// laboratory.
const CNONCE: &[u8] = b"0a4f113b";

/// The account that answers a challenge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) realm: &'a [u8],
    pub(crate) password: &'a [u8],
}

/// A nonce and its use count.
#[derive(Clone, Debug)]
pub(crate) struct Nonce {
    value: Box<[u8]>,
    algorithm: digest::Algorithm,
    count: u32,
    /// H(A1) of the user, computed on first use.
    ha1: Option<Ha1>,
}

#[derive(Clone, Copy, Debug)]
enum Ha1 {
    Md5([u8; 16]),
    Sha256([u8; 32]),
}

impl Nonce {
    /// From the first challenge with a supported algorithm, which is the preferred one (RFC 8760 section 2.4). `is_proxy`: from a 407.
    pub(crate) fn of(response: &Message<'_>, is_proxy: bool) -> Option<Self> {
        let name = if is_proxy {
            HeaderName::ProxyAuthenticate
        } else {
            HeaderName::WwwAuthenticate
        };
        let mut headers = response.headers().filter(|header| header.name == name);
        headers.find_map(|header| {
            let challenge = Challenge::parse(header.value)?;
            Some(Self {
                value: challenge.nonce.into(),
                algorithm: digest::Algorithm::from_token(challenge.algorithm)?,
                count: 0,
                ha1: None,
            })
        })
    }

    /// Appends the value of an Authorization or Proxy-Authorization header field, with the next nonce count.
    pub(crate) fn authorize(
        &mut self,
        account: Account<'_>,
        method: &[u8],
        uri: &[u8],
        into: &mut Vec<u8>,
    ) {
        self.count += 1;
        let mut count = [0; 8];
        write_hexadecimal(self.count, &mut count);
        let input = DigestInput {
            method,
            uri,
            nonce: &self.value,
            qop_auth: Some((&count, CNONCE)),
        };
        for part in [
            b"Digest username=\"",
            account.user,
            b"\",realm=\"",
            account.realm,
            b"\",nonce=\"",
            &self.value,
            b"\",uri=\"",
            uri,
            b"\",qop=auth,nc=",
            &count,
            b",cnonce=\"",
            CNONCE,
        ] {
            into.extend_from_slice(part);
        }
        match *self.ha1.get_or_insert_with(|| ha1(self.algorithm, account)) {
            Ha1::Md5(ha1) => {
                into.extend_from_slice(b"\",algorithm=MD5,response=\"");
                into.extend_from_slice(&digest::response_md5(&ha1, &input));
            }
            Ha1::Sha256(ha1) => {
                into.extend_from_slice(b"\",algorithm=SHA-256,response=\"");
                into.extend_from_slice(&digest::response_sha256(&ha1, &input));
            }
        }
        into.push(b'"');
    }
}

/// Whether the challenge only says that the nonce is stale.
pub(crate) fn is_stale(response: &Message<'_>) -> bool {
    let challenges = [HeaderName::ProxyAuthenticate, HeaderName::WwwAuthenticate];
    let mut headers = response
        .headers()
        .filter(|header| challenges.contains(&header.name));
    headers.any(|header| {
        let value = header.value.to_ascii_lowercase();
        value.windows(10).any(|part| part == b"stale=true")
    })
}

fn ha1(algorithm: digest::Algorithm, account: Account<'_>) -> Ha1 {
    let Account {
        user,
        realm,
        password,
    } = account;
    match algorithm {
        digest::Algorithm::Sha256 => Ha1::Sha256(digest::ha1_sha256(user, realm, password)),
        digest::Algorithm::Md5 => Ha1::Md5(digest::ha1_md5(user, realm, password)),
    }
}

fn write_hexadecimal(number: u32, digits: &mut [u8; 8]) {
    for (place, digit) in (0..8).rev().zip(digits) {
        *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
    }
}
