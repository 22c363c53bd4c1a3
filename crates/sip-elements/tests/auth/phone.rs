//! Requests with credentials.

use crate::server::REALM;
use sip_message::digest::{DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256};
use std::fmt::Write as _;

/// A request with credentials, as a phone writes it.
#[derive(Clone)]
pub(crate) struct Phone {
    pub(crate) method: &'static str,
    pub(crate) request_uri: &'static str,
    pub(crate) digest_uri: &'static str,
    pub(crate) username: String,
    /// The user name that the phone hashes.
    pub(crate) hashed_username: String,
    pub(crate) password: String,
    pub(crate) realm: &'static str,
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) sha256: bool,
    pub(crate) nonce: String,
    /// The values of qop, nc and cnonce.
    pub(crate) qop: Option<(&'static str, String, &'static str)>,
    pub(crate) cseq: u32,
    pub(crate) branch: String,
    pub(crate) contact: &'static str,
    pub(crate) body: &'static str,
}

impl Phone {
    pub(crate) fn alice(nonce: String) -> Self {
        Self {
            method: "REGISTER",
            request_uri: "sip:example.org",
            digest_uri: "sip:example.org",
            username: "alice".to_owned(),
            hashed_username: "alice".to_owned(),
            password: "secret".to_owned(),
            realm: REALM,
            algorithm: Some("MD5"),
            sha256: false,
            nonce,
            qop: Some(("auth", "00000001".to_owned(), "0a4f113b")),
            cseq: 2,
            branch: "z9hG4bKnashds7".to_owned(),
            contact: "<sip:alice@192.0.2.1>",
            body: "",
        }
    }

    pub(crate) fn counting(mut self, count: u32) -> Self {
        self.qop = Some(("auth", format!("{count:08x}"), "0a4f113b"));
        self.cseq = count + 1;
        self.branch = format!("z9hG4bKnashds{count}");
        self
    }

    pub(crate) fn authorization(&self) -> String {
        let input = DigestInput {
            method: self.method.as_bytes(),
            uri: self.digest_uri.as_bytes(),
            nonce: self.nonce.as_bytes(),
            qop_auth: self
                .qop
                .as_ref()
                .map(|(_, nc, cnonce)| (nc.as_bytes(), cnonce.as_bytes())),
        };
        let (username, realm, password) = (
            self.hashed_username.as_bytes(),
            self.realm.as_bytes(),
            self.password.as_bytes(),
        );
        let response = if self.sha256 {
            String::from_utf8(
                response_sha256(&ha1_sha256(username, realm, password), &input).to_vec(),
            )
        } else {
            String::from_utf8(response_md5(&ha1_md5(username, realm, password), &input).to_vec())
        };
        let mut value = format!(
            "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{}\", response=\"{}\"",
            self.username,
            self.realm,
            self.nonce,
            self.digest_uri,
            response.unwrap()
        );
        if let Some(algorithm) = self.algorithm {
            write!(value, ", algorithm={algorithm}").unwrap();
        }
        if let Some((qop, nc, cnonce)) = &self.qop {
            write!(value, ", qop={qop}, nc={nc}, cnonce=\"{cnonce}\"").unwrap();
        }
        value
    }

    pub(crate) fn with_credentials(&self, lines: &[String]) -> Vec<u8> {
        let header = if self.method == "REGISTER" {
            "Authorization"
        } else {
            "Proxy-Authorization"
        };
        let credentials = lines
            .iter()
            .flat_map(|line| [header, ": ", line, "\r\n"])
            .collect::<String>();
        format!(
            "{} {} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.org>;tag=456248\r\nTo: <sip:alice@example.org>\r\n\
             Call-ID: 843817637684230@998sdasdh09\r\nCSeq: {} {}\r\nContact: {}\r\n{credentials}\
             Content-Length: {}\r\n\r\n{}",
            self.method,
            self.request_uri,
            self.branch,
            self.cseq,
            self.method,
            self.contact,
            self.body.len(),
            self.body,
        )
        .into_bytes()
    }

    pub(crate) fn request(&self) -> Vec<u8> {
        self.with_credentials(&[self.authorization()])
    }
}
