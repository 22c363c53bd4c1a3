//! The header fields that every request of a user agent has, and its session description.

use super::event::Session;
use super::settings::AgentSettings;
use sip_message::digest::Line;
use sip_message::{HeaderName, Method, RequestWriter, ResponseWriter, Scheme, Uri};
use sip_transport::{Flow, Listener, Protocol};

/// The methods that a user agent accepts: the value of Allow.
pub(super) const ALLOW: &[u8] = b"INVITE, ACK, CANCEL, BYE, UPDATE, OPTIONS";

/// The header fields of a request after Via, Max-Forwards and Call-ID.
#[derive(Debug)]
pub(super) struct Fields<'f> {
    pub(super) routes: &'f [Box<[u8]>],
    pub(super) from: &'f [u8],
    pub(super) to: &'f [u8],
    pub(super) cseq: (u32, Method<'f>),
    pub(super) contact: Option<Vec<u8>>,
    pub(super) authorization: &'f [Line],
}

impl Fields<'_> {
    pub(super) fn write<'o>(&self, mut request: RequestWriter<'o>) -> RequestWriter<'o> {
        for route in self.routes {
            request = request.header(HeaderName::Route, route);
        }
        let (number, method) = self.cseq;
        let cseq = [number.to_string().as_bytes(), b" ", method.as_bytes()].concat();
        request = request
            .header(HeaderName::From, self.from)
            .header(HeaderName::To, self.to)
            .header(HeaderName::CSeq, &cseq);
        if let Some(contact) = &self.contact {
            request = request.header(HeaderName::Contact, contact);
        }
        for (name, value) in self.authorization {
            request = request.header(*name, value);
        }
        if method == Method::Invite {
            request = request.header(HeaderName::Allow, ALLOW);
        }
        request
    }
}

impl AgentSettings {
    /// The Contact of a request or response on this flow: a SIPS URI if the Request-URI is one (RFC 3261 sections 8.1.1.8 and 12.1.1).
    pub(super) fn contact(&self, listeners: &[Listener], flow: Flow, uri: &[u8]) -> Vec<u8> {
        let Some(listener) = listeners.get(usize::from(flow.listener.0)) else {
            return Vec::new();
        };
        let is_sips = Uri::parse(uri).is_some_and(|uri| uri.scheme == Scheme::Sips);
        let scheme = if is_sips { "sips" } else { "sip" };
        let transport = match listener.protocol {
            Protocol::Tls if is_sips => "",
            Protocol::Udp => "",
            Protocol::Tcp => ";transport=tcp",
            Protocol::Tls => ";transport=tls",
            Protocol::Ws | Protocol::Wss => ";transport=ws",
        };
        format!(
            "<{scheme}:{}@{}{transport}>",
            self.user, listener.advertised
        )
        .into_bytes()
    }
}

impl Session {
    /// Ends a request with this body.
    pub(super) fn finish_request(&self, request: RequestWriter<'_>) {
        if self.body.is_empty() {
            request.finish();
        } else {
            request.finish_with_body(self.content_type.as_bytes(), &self.body);
        }
    }

    /// Ends a response with this body.
    pub(super) fn finish_response(&self, response: ResponseWriter<'_>) {
        if self.body.is_empty() {
            response.finish();
        } else {
            response.finish_with_body(self.content_type.as_bytes(), &self.body);
        }
    }
}
