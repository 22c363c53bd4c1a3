//! The client's side of digest authentication (RFC 7616, RFC 8760): a challenge, the use count of its nonce, and the credentials made from it.

use super::{Algorithm, DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256};
use crate::Challenge;
use crate::grammar::split_at;

/// The most bytes of realm, nonce and opaque. A longer challenge is not answered: each request would repeat it.
const MAX_TEXT: usize = 4_096;

/// A challenge that a client answers, any number of times, with a growing nonce count.
#[derive(Clone, Debug)]
pub struct ClientNonce {
    /// Realm, nonce and opaque of the challenge, one after the other, as received.
    text: Box<[u8]>,
    realm_length: u32,
    nonce_length: u32,
    algorithm: Algorithm,
    has_qop: bool,
    has_opaque: bool,
    count: u32,
    /// H(A1), computed on first use. A nonce therefore serves one account.
    ha1: Option<Ha1>,
}

#[derive(Clone, Copy, Debug)]
enum Ha1 {
    Md5([u8; 16]),
    Sha256([u8; 32]),
}

/// The account that answers a challenge. The client makes sure that the name contains neither quotes nor backslashes.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Account<'a> {
    pub username: &'a [u8],
    pub password: &'a [u8],
}

impl ClientNonce {
    /// Creates it from a challenge. `None` if the algorithm is unknown, if only a qop other than `auth` is offered, or if realm, nonce and
    /// opaque have more than 4,096 bytes. Of several challenges of one realm, the first that is supported is the server's preferred one
    /// (RFC 8760 section 2.4).
    pub fn new(challenge: &Challenge<'_>) -> Option<Self> {
        let algorithm = Algorithm::from_token(challenge.algorithm)?;
        let mut offered = challenge
            .qop
            .into_iter()
            .flat_map(|list| list.split(|octet| *octet == b','));
        let offers_auth = offered.any(|qop| qop.trim_ascii().eq_ignore_ascii_case(b"auth"));
        if challenge.qop.is_some() && !offers_auth {
            return None;
        }
        let opaque = challenge.opaque.unwrap_or_default();
        let text = [challenge.realm, challenge.nonce, opaque];
        if text.iter().map(|part| part.len()).sum::<usize>() > MAX_TEXT {
            return None;
        }
        Some(Self {
            text: text.concat().into(),
            realm_length: challenge.realm.len() as u32,
            nonce_length: challenge.nonce.len() as u32,
            algorithm,
            has_qop: challenge.qop.is_some(),
            has_opaque: challenge.opaque.is_some(),
            count: 0,
            ha1: None,
        })
    }

    /// The realm of the challenge.
    pub fn realm(&self) -> &[u8] {
        self.parts().0
    }

    /// The nonce.
    pub fn nonce(&self) -> &[u8] {
        self.parts().1
    }

    /// How often it has been used.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The algorithm of the challenge.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let (realm, rest) = split_at(&self.text, self.realm_length as usize);
        let (nonce, opaque) = split_at(rest, self.nonce_length as usize);
        (realm, nonce, opaque)
    }

    /// Appends the value of an Authorization or Proxy-Authorization header field for a request with this method and digest-uri, with the
    /// next nonce count. `cnonce` is random, without quotes and backslashes; it protects the password from servers that choose nonces.
    pub fn authorize(
        &mut self,
        account: Account<'_>,
        (method, uri): (&[u8], &[u8]),
        cnonce: &[u8],
        into: &mut Vec<u8>,
    ) {
        self.count = self.count.wrapping_add(1);
        self.ha1 = Some(self.ha1_of(account));
        self.authorize_as(self.count, account, (method, uri), cnonce, into);
    }

    /// Like [`ClientNonce::authorize`], with a nonce count that the calling code chooses, each only once.
    pub fn authorize_as(
        &self,
        count: u32,
        account: Account<'_>,
        (method, uri): (&[u8], &[u8]),
        cnonce: &[u8],
        into: &mut Vec<u8>,
    ) {
        let count = hexadecimal(count);
        let algorithm = self.algorithm;
        let ha1 = self.ha1_of(account);
        let (realm, nonce, opaque) = self.parts();
        let mut push = |parts: &[&[u8]]| {
            for part in parts {
                into.extend_from_slice(part);
            }
        };
        let name = algorithm.token().as_bytes();
        push(&[
            b"Digest username=\"",
            account.username,
            b"\",realm=\"",
            realm,
        ]);
        push(&[b"\",nonce=\"", nonce, b"\",uri=\"", uri]);
        push(&[b"\",algorithm=", name]);
        if self.has_qop {
            push(&[b",qop=auth,nc=", &count, b",cnonce=\"", cnonce, b"\""]);
        }
        if self.has_opaque {
            push(&[b",opaque=\"", opaque, b"\""]);
        }
        let input = DigestInput {
            method,
            uri,
            nonce,
            qop_auth: self.has_qop.then_some((&count[..], cnonce)),
        };
        match ha1 {
            Ha1::Md5(ha1) => push(&[b",response=\"", &response_md5(&ha1, &input), b"\""]),
            Ha1::Sha256(ha1) => push(&[b",response=\"", &response_sha256(&ha1, &input), b"\""]),
        }
    }

    fn ha1_of(&self, account: Account<'_>) -> Ha1 {
        let computed = || Ha1::of(self.algorithm, account, self.realm());
        self.ha1.unwrap_or_else(computed)
    }
}

impl Ha1 {
    fn of(algorithm: Algorithm, account: Account<'_>, realm: &[u8]) -> Self {
        let Account { username, password } = account;
        match algorithm {
            Algorithm::Md5 => Self::Md5(ha1_md5(username, realm, password)),
            Algorithm::Sha256 => Self::Sha256(ha1_sha256(username, realm, password)),
        }
    }
}

/// Eight digits, as in the parameter nc.
fn hexadecimal(number: u32) -> [u8; 8] {
    let digit = |byte: u8| match byte {
        0..10 => b'0' + byte,
        _ => b'a' - 10 + byte,
    };
    let [a, b, c, d] = number.to_be_bytes();
    [
        digit(a >> 4),
        digit(a & 15),
        digit(b >> 4),
        digit(b & 15),
        digit(c >> 4),
        digit(c & 15),
        digit(d >> 4),
        digit(d & 15),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    const MUFASA: Account<'_> = Account {
        username: b"Mufasa",
        password: b"Circle of Life",
    };
    const ASKED: (&[u8], &[u8]) = (b"GET", b"/dir/index.html");

    fn nonce(challenge: &str) -> Option<ClientNonce> {
        ClientNonce::new(&Challenge::parse(challenge.as_bytes()).expect("a challenge"))
    }

    fn answered(nonce: &mut ClientNonce, cnonce: &[u8]) -> Vec<u8> {
        let mut value = Vec::new();
        nonce.authorize(MUFASA, ASKED, cnonce, &mut value);
        value
    }

    #[test]
    fn the_examples_of_the_rfc_are_answered() {
        // RFC 7616 section 3.9.1.
        const CNONCE: &[u8] = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        const ASKED: &str = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", \
                             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\", algorithm=";
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            (
                "SHA-256",
                "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
            ),
        ] {
            let mut nonce = nonce(&format!("{ASKED}{algorithm}")).expect("supported");
            let value = answered(&mut nonce, CNONCE);
            let read = Credentials::parse(&value).expect("credentials");
            assert_eq!(read.response, response.as_bytes(), "{algorithm}");
            assert_eq!((read.nc, read.qop), (Some(1), Some(&b"auth"[..])));
            assert_eq!(read.opaque.map(<[u8]>::len), Some(44));
        }
    }

    #[test]
    fn each_use_of_a_nonce_counts() {
        let mut nonce = nonce("Digest realm=\"r\", nonce=\"n\", qop=\"auth\"").expect("supported");
        let (first, second) = (answered(&mut nonce, b"c"), answered(&mut nonce, b"c"));
        let [first, second] =
            [&first, &second].map(|value| Credentials::parse(value).expect("credentials"));
        assert_eq!((first.nc, second.nc), (Some(1), Some(2)));
        assert_ne!(first.response, second.response);
        assert_eq!(&hexadecimal(0x0012_abcd), b"0012abcd");
    }

    #[test]
    fn a_server_of_rfc_2069_gets_neither_qop_nor_count() {
        let mut nonce = nonce(
            "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"",
        )
        .expect("supported");
        let value = answered(&mut nonce, b"c");
        let read = Credentials::parse(&value).expect("credentials");
        assert_eq!((read.qop, read.nc, read.cnonce), (None, None, None));
        assert_eq!(read.opaque, None);
    }

    #[test]
    fn challenges_that_cannot_be_answered_are_no_nonce() {
        for refused in [
            "Digest realm=\"r\", nonce=\"n\", algorithm=SHA-512-256",
            "Digest realm=\"r\", nonce=\"n\", algorithm=MD5-sess",
            "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\"",
        ] {
            assert!(nonce(refused).is_none(), "{refused}");
        }
        let of_length = |length| format!("Digest realm=\"r\", nonce=\"{}\"", "n".repeat(length));
        assert!(nonce(&of_length(MAX_TEXT - 1)).is_some());
        assert!(nonce(&of_length(MAX_TEXT)).is_none());
    }
}
