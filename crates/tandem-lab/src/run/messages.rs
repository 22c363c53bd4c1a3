//! The messages of phones, written directly into the output buffer.

use super::dialog::Dialog;
use super::subscribers::{Subscribers, authorize, push_decimal};
use crate::credentials::Nonce;
use sip_message::{
    HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter, reason_phrase,
};
use sip_transaction::ClientId;
use sip_transport::{Listener, ListenerId, Protocol};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::LazyLock;

/// An SDP offer and answer of ordinary size.
const SESSION: &[u8] = b"v=0\r\no=phone 2890844526 2890844526 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                         m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
                         a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

/// Keyed hash for the branches of this process.
pub(super) static HASHER: LazyLock<KeyHasher> = LazyLock::new(|| {
    let random = || RandomState::new().hash_one(0_u8);
    KeyHasher::new((random(), random()))
});

/// The socket of phones, or their connection to the server.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) listener: ListenerId,
    pub(crate) address: SocketAddr,
    pub(super) is_reliable: bool,
    /// Via up to the branch.
    sent_by: Vec<u8>,
    /// The part of a contact after the user.
    host: Vec<u8>,
}

impl Port {
    pub(crate) fn new(listener: &Listener, id: ListenerId) -> Self {
        let transport = match listener.protocol {
            Protocol::Udp => "",
            Protocol::Tcp => ";transport=tcp",
            Protocol::Tls => ";transport=tls",
            Protocol::Ws | Protocol::Wss => ";transport=ws",
        };
        let (token, at) = (listener.protocol.via_token(), &listener.advertised);
        Self {
            listener: id,
            address: listener.address,
            is_reliable: listener.protocol.is_reliable(),
            sent_by: format!("SIP/2.0/{token} {at};branch=").into_bytes(),
            host: format!("@{at}{transport}").into_bytes(),
        }
    }

    /// Appends a phone's contact URI.
    pub(crate) fn write_contact(&self, subscribers: &Subscribers, phone: u32, into: &mut Vec<u8>) {
        into.extend_from_slice(b"sip:");
        subscribers.user.write(phone, into);
        into.extend_from_slice(&self.host);
    }
}

/// Properties of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading<'a> {
    pub(crate) method: Method<'a>,
    pub(crate) uri: &'a [u8],
    pub(crate) port: &'a Port,
    /// The sending phone.
    pub(crate) phone: u32,
    /// Number of the call or registration.
    pub(crate) number: u64,
    pub(crate) cseq: u32,
}

/// Source of a request's branch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Branch {
    /// The transaction of the request.
    Client(ClientId),
    /// The number of the call: an ACK has no transaction.
    Acknowledgement,
    /// Number and `CSeq` of a request that is sent over a connection without a transaction.
    Request,
}

impl Heading<'_> {
    /// Starts a request: header fields up to `CSeq`, except To.
    pub(crate) fn begin<'o>(
        &self,
        subscribers: &Subscribers,
        branch: Branch,
        into: &'o mut Vec<u8>,
    ) -> RequestWriter<'o> {
        let mut call_id = Vec::with_capacity(20);
        push_hexadecimal(&mut call_id, self.number);
        call_id.extend_from_slice(b"@lab");
        RequestWriter::begin(into, self.method, self.uri)
            .header_with(HeaderName::Via, |into| {
                into.extend_from_slice(&self.port.sent_by);
                match branch {
                    Branch::Client(client) => {
                        let number = self.number;
                        sip_transaction::Branch::new(&HASHER, client, &call_id, number).write(into);
                    }
                    Branch::Acknowledgement => {
                        into.extend_from_slice(b"z9hG4bK-ack-");
                        push_hexadecimal(into, self.number);
                    }
                    Branch::Request => {
                        into.extend_from_slice(b"z9hG4bK-");
                        push_decimal(into, u64::from(self.cseq));
                        into.push(b'-');
                        push_hexadecimal(into, self.number);
                    }
                }
                into.extend_from_slice(b";rport");
            })
            .header(HeaderName::MaxForwards, b"70")
            .header_with(HeaderName::From, |into| {
                push_address(into, subscribers, self.phone);
                into.extend_from_slice(b";tag=");
                push_hexadecimal(into, self.number);
            })
            .header(HeaderName::CallId, &call_id)
            .header_with(HeaderName::CSeq, |into| {
                push_decimal(into, u64::from(self.cseq));
                into.push(b' ');
                into.extend_from_slice(self.method.as_bytes());
            })
    }

    /// Writes a REGISTER of the phone itself, with credentials if it has a nonce.
    pub(crate) fn register(
        &self,
        subscribers: &Subscribers,
        branch: Branch,
        (expires, nonce): (u32, Option<&mut Nonce>),
        into: &mut Vec<u8>,
    ) {
        let request = self
            .begin(subscribers, branch, into)
            .header_with(HeaderName::To, |into| {
                push_address(into, subscribers, self.phone);
            });
        let request = self
            .contact(subscribers, request)
            .header_with(HeaderName::Expires, |into| {
                push_decimal(into, u64::from(expires));
            });
        match nonce {
            Some(nonce) => request.header_with(HeaderName::Authorization, |into| {
                authorize(
                    subscribers,
                    self.phone,
                    nonce,
                    (b"REGISTER", self.uri),
                    into,
                );
            }),
            None => request,
        }
        .finish();
    }

    /// Writes an INVITE with an offer, with credentials if the phone has a nonce.
    pub(crate) fn invite(
        &self,
        subscribers: &Subscribers,
        branch: Branch,
        (callee, nonce): (u32, Option<&mut Nonce>),
        into: &mut Vec<u8>,
    ) {
        let request = self
            .begin(subscribers, branch, into)
            .header_with(HeaderName::To, |into| {
                push_address(into, subscribers, callee);
            });
        let request = self.contact(subscribers, request);
        finish_with_offer(match nonce {
            Some(nonce) => request.header_with(HeaderName::ProxyAuthorization, |into| {
                authorize(subscribers, self.phone, nonce, (b"INVITE", self.uri), into);
            }),
            None => request,
        });
    }

    /// Writes a request within a dialog.
    pub(crate) fn in_dialog(
        &self,
        subscribers: &Subscribers,
        branch: Branch,
        dialog: &Dialog,
        into: &mut Vec<u8>,
    ) {
        let mut request = self.begin(subscribers, branch, into);
        for route in &dialog.routes {
            request = request.header(HeaderName::Route, route);
        }
        request.header(HeaderName::To, &dialog.to).finish();
    }

    fn contact<'o>(
        &self,
        subscribers: &Subscribers,
        request: RequestWriter<'o>,
    ) -> RequestWriter<'o> {
        request.header_with(HeaderName::Contact, |into| {
            into.push(b'<');
            self.port.write_contact(subscribers, self.phone, into);
            into.push(b'>');
        })
    }
}

/// Finishes an INVITE.
pub(super) fn finish_with_offer(request: RequestWriter<'_>) {
    request.finish_with_body(b"application/sdp", SESSION);
}

/// Appends `<sip:user@domain>`.
pub(super) fn push_address(into: &mut Vec<u8>, subscribers: &Subscribers, phone: u32) {
    into.push(b'<');
    push_uri(into, subscribers, phone);
    into.push(b'>');
}

/// Appends `sip:user@domain`.
pub(crate) fn push_uri(into: &mut Vec<u8>, subscribers: &Subscribers, phone: u32) {
    into.extend_from_slice(b"sip:");
    subscribers.user.write(phone, into);
    into.push(b'@');
    into.extend_from_slice(subscribers.domain.as_bytes());
}

/// The tag of callees that need not be told apart.
pub(super) const CALLEE: &[u8] = b"callee";

/// Appends the response of a callee with this tag; a 200 to INVITE has an SDP answer.
pub(crate) fn respond(
    request: &Message<'_>,
    (status, tag): (u16, &[u8]),
    source: SocketAddr,
    contact: impl FnOnce(&mut Vec<u8>),
    into: &mut Vec<u8>,
) {
    let is_first = request.to().is_none_or(|to| to.tag().is_none());
    let tag = is_first.then_some(tag);
    let phrase = reason_phrase(status);
    let mut response = ResponseWriter::begin(into, request, source, status, phrase, tag);
    let makes_dialog = request.method() == Method::Invite && status < 300;
    if !makes_dialog {
        return response.finish();
    }
    for route in request.values(HeaderName::RecordRoute) {
        response = response.header(HeaderName::RecordRoute, route);
    }
    response = response.header_with(HeaderName::Contact, |into| {
        into.push(b'<');
        contact(into);
        into.push(b'>');
    });
    if status >= 200 {
        response.finish_with_body(b"application/sdp", SESSION);
    } else {
        response.finish();
    }
}

/// The number in one of our Call-IDs.
pub(super) fn number_in(call_id: &[u8]) -> Option<u64> {
    let digits = call_id
        .strip_suffix(b"@lab")
        .filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn push_hexadecimal(into: &mut Vec<u8>, number: u64) {
    let digit = |place: u32| b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
    into.extend((0..16).rev().map(digit));
}
