//! The requests of a caller, written into a reused buffer.

pub(crate) use crate::credentials::Nonce;

use super::socket::address_of_phone;
use crate::credentials::Account;
use sip_message::{HeaderName, Message, Method, RequestWriter};
use std::io::Write;
use std::net::SocketAddr;

/// An SDP offer of ordinary size.
const OFFER: &str = "v=0\r\no=caller 2890844526 2890844526 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                     m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
                     a=sendrecv\r\n";

/// Properties that all requests of a run share.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) domain: String,
    /// The transport in Via: `UDP`, `TCP`, `TLS`.
    pub(crate) transport: &'static str,
    pub(crate) local: SocketAddr,
    pub(crate) contact: SocketAddr,
    /// Whether each phone has an address of its own instead, with these ports.
    pub(crate) own_addresses: bool,
}

/// Properties of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// Number of the dialog or registration.
    pub(crate) number: u64,
    pub(crate) user: u32,
    pub(crate) callee: u32,
    pub(crate) cseq: u32,
}

impl Writer {
    /// The address that a phone sends from.
    pub(crate) fn local_of(&self, user: u32) -> SocketAddr {
        self.place_of(user, self.local)
    }

    fn contact_of(&self, user: u32) -> SocketAddr {
        self.place_of(user, self.contact)
    }

    fn place_of(&self, user: u32, shared: SocketAddr) -> SocketAddr {
        if self.own_addresses {
            SocketAddr::new(address_of_phone(user), shared.port())
        } else {
            shared
        }
    }

    pub(crate) fn keep_alive(&self, unit: Unit, into: &mut Vec<u8>) {
        let uri = format!("sip:{}", self.domain);
        self.begin(Method::Notify, uri.as_bytes(), unit, b"ka", into)
            .header_with(HeaderName::To, |into| {
                put(into, format_args!("<sip:{}>", self.domain));
            })
            .header(HeaderName::Event, b"keep-alive")
            .finish();
    }

    /// An OPTIONS for the server itself.
    pub(crate) fn options(&self, unit: Unit, into: &mut Vec<u8>) {
        let uri = format!("sip:{}", self.domain);
        self.begin(Method::Options, uri.as_bytes(), unit, b"opt", into)
            .header_with(HeaderName::To, |into| put(into, format_args!("<{uri}>")))
            .finish();
    }

    pub(crate) fn register(&self, unit: Unit, nonce: Option<&mut Nonce>, into: &mut Vec<u8>) {
        let uri = format!("sip:{}", self.domain);
        let mut request = self
            .begin(Method::Register, uri.as_bytes(), unit, b"reg", into)
            .header_with(HeaderName::To, |into| {
                put(
                    into,
                    format_args!("<sip:user{}@{}>", unit.user, self.domain),
                );
            })
            .header_with(HeaderName::Contact, |into| {
                let parameter = contact_parameter(self.transport);
                put(
                    into,
                    format_args!(
                        "<sip:user{}@{}{parameter}>",
                        unit.user,
                        self.contact_of(unit.user)
                    ),
                );
            })
            .header(HeaderName::Expires, b"3600");
        if let Some(nonce) = nonce {
            let value = self.credentials(unit.user, b"REGISTER", &uri, nonce);
            request = request.header(HeaderName::Authorization, &value);
        }
        request.finish();
    }

    pub(crate) fn invite(&self, unit: Unit, nonce: Option<&mut Nonce>, into: &mut Vec<u8>) {
        let uri = format!("sip:user{}@{}", unit.callee, self.domain);
        let mut request = self
            .begin(Method::Invite, uri.as_bytes(), unit, b"call", into)
            .header_with(HeaderName::To, |into| put(into, format_args!("<{uri}>")))
            .header_with(HeaderName::Contact, |into| {
                let parameter = contact_parameter(self.transport);
                put(
                    into,
                    format_args!(
                        "<sip:user{}@{}{parameter}>",
                        unit.user,
                        self.local_of(unit.user)
                    ),
                );
            })
            .header(HeaderName::UserAgent, b"tandem-lab");
        if let Some(nonce) = nonce {
            let value = self.credentials(unit.user, b"INVITE", &uri, nonce);
            request = request.header(HeaderName::ProxyAuthorization, &value);
        }
        request.finish_with_body(b"application/sdp", OFFER.as_bytes());
    }

    /// The ACK of a 2xx, or a BYE, in the dialog that `response` established: to its Contact, along its Record-Route.
    pub(crate) fn in_dialog(
        &self,
        method: Method<'_>,
        unit: Unit,
        response: &Message<'_>,
        into: &mut Vec<u8>,
    ) {
        let contact = response
            .values(HeaderName::Contact)
            .next()
            .and_then(sip_message::NameAddr::parse);
        let target = contact.map_or(&b"sip:nobody.invalid"[..], |contact| contact.uri_bytes);
        let mut request = self.begin(method, target, unit, b"call", into);
        let routes: Vec<&[u8]> = response.values(HeaderName::RecordRoute).collect();
        for route in routes.iter().rev() {
            request = request.header(HeaderName::Route, route);
        }
        request
            .header(
                HeaderName::To,
                response.header(HeaderName::To).unwrap_or_default(),
            )
            .finish();
    }

    /// The ACK of a final response other than 2xx.
    pub(crate) fn ack_refusal(&self, unit: Unit, response: &Message<'_>, into: &mut Vec<u8>) {
        let uri = format!("sip:user{}@{}", unit.callee, self.domain);
        let via = response.header(HeaderName::Via).unwrap_or_default();
        RequestWriter::begin(into, Method::Ack, uri.as_bytes())
            .header(HeaderName::Via, via)
            .header(HeaderName::MaxForwards, b"70")
            .header(
                HeaderName::From,
                response.header(HeaderName::From).unwrap_or_default(),
            )
            .header(
                HeaderName::To,
                response.header(HeaderName::To).unwrap_or_default(),
            )
            .header(HeaderName::CallId, response.call_id().unwrap_or_default())
            .header_with(HeaderName::CSeq, |into| {
                put(into, format_args!("{} ACK", unit.cseq));
            })
            .finish();
    }

    fn begin<'o>(
        &self,
        method: Method<'_>,
        uri: &[u8],
        unit: Unit,
        prefix: &[u8],
        into: &'o mut Vec<u8>,
    ) -> RequestWriter<'o> {
        let prefix = String::from_utf8_lossy(prefix);
        let name = String::from_utf8_lossy(method.as_bytes());
        RequestWriter::begin(into, method, uri)
            .header_with(HeaderName::Via, |into| {
                let branch = if method == Method::Ack { 'a' } else { 'r' };
                put(
                    into,
                    format_args!(
                        "SIP/2.0/{} {};rport;branch=z9hG4bK{prefix}{}{branch}{}",
                        self.transport,
                        self.local_of(unit.user),
                        unit.number,
                        unit.cseq
                    ),
                );
            })
            .header(HeaderName::MaxForwards, b"70")
            .header_with(HeaderName::From, |into| {
                put(
                    into,
                    format_args!(
                        "<sip:user{}@{}>;tag=t{}",
                        unit.user, self.domain, unit.number
                    ),
                );
            })
            .header_with(HeaderName::CallId, |into| {
                put(
                    into,
                    format_args!("{prefix}-{}@{}", unit.number, self.local.ip()),
                );
            })
            .header_with(HeaderName::CSeq, |into| {
                put(into, format_args!("{} {name}", unit.cseq));
            })
    }

    fn credentials(&self, user: u32, method: &[u8], uri: &str, nonce: &mut Nonce) -> Vec<u8> {
        let (name, password) = (format!("user{user}"), format!("password{user}"));
        let account = Account {
            user: name.as_bytes(),
            realm: self.domain.as_bytes(),
            password: password.as_bytes(),
        };
        let mut value = Vec::with_capacity(300);
        nonce.authorize(account, method, uri.as_bytes(), &mut value);
        value
    }
}

/// The transport parameter of a contact; UDP is the default and has none.
pub(crate) const fn contact_parameter(transport: &str) -> &'static str {
    match transport.as_bytes() {
        b"TCP" => ";transport=tcp",
        b"TLS" => ";transport=tls",
        _ => "",
    }
}

fn put(into: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = into.write_fmt(text);
}
