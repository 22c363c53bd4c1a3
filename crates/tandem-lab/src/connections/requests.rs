//! The requests of a phone on its connection. They are those of the phones of `tandem lab run`.

use super::options::Target;
use crate::credentials::Nonce;
use crate::run::{Branch, Dialog, Heading, Port, Subscribers, push_uri};
use sip_message::{HeaderName, Message, Method, RequestWriter};
use sip_transport::{Listener, ListenerId};
use std::net::SocketAddr;
use std::sync::Arc;

/// Registration lifetime to request, in seconds.
const EXPIRES: u32 = 3_600;

/// Properties of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// Number of the dialog or registration.
    pub(super) number: u64,
    pub(super) user: u32,
    pub(super) callee: u32,
    pub(super) cseq: u32,
}

/// Writes the requests of one connection.
pub(super) struct Writer {
    pub(super) port: Port,
    pub(super) subscribers: Arc<Subscribers>,
}

impl Writer {
    /// For a connection from this address.
    pub(super) fn new(target: &Target, local: SocketAddr, subscribers: Arc<Subscribers>) -> Self {
        let listener = Listener {
            protocol: target.transport.protocol(),
            address: local,
            prefix_length: 8,
            advertised: local.to_string(),
            behind_balancer: false,
        };
        Self {
            port: Port::new(&listener, ListenerId(0)),
            subscribers,
        }
    }

    /// An OPTIONS for the server itself.
    pub(super) fn options(&self, unit: Unit) -> Vec<u8> {
        let (uri, mut request) = (self.domain(), Vec::new());
        self.heading(Method::Options, &uri, unit)
            .begin(&self.subscribers, Branch::Request, &mut request)
            .header_with(HeaderName::To, |into| {
                into.push(b'<');
                into.extend_from_slice(&uri);
                into.push(b'>');
            })
            .finish();
        request
    }

    pub(super) fn register(&self, unit: Unit, nonce: Option<&mut Nonce>) -> Vec<u8> {
        let (uri, mut request) = (self.domain(), Vec::new());
        let heading = self.heading(Method::Register, &uri, unit);
        heading.register(
            &self.subscribers,
            Branch::Request,
            (EXPIRES, nonce),
            &mut request,
        );
        request
    }

    pub(super) fn invite(&self, unit: Unit, nonce: Option<&mut Nonce>) -> Vec<u8> {
        let (uri, mut request) = (self.callee(unit), Vec::new());
        let heading = self.heading(Method::Invite, &uri, unit);
        let with = (unit.callee, nonce);
        heading.invite(&self.subscribers, Branch::Request, with, &mut request);
        request
    }

    /// The ACK of a 2xx.
    pub(super) fn acknowledge(&self, unit: Unit, dialog: &Dialog) -> Vec<u8> {
        self.in_dialog((Method::Ack, Branch::Acknowledgement), unit, dialog)
    }

    pub(super) fn hang_up(&self, unit: Unit, dialog: &Dialog) -> Vec<u8> {
        self.in_dialog((Method::Bye, Branch::Request), unit, dialog)
    }

    fn in_dialog(
        &self,
        (method, branch): (Method<'static>, Branch),
        unit: Unit,
        dialog: &Dialog,
    ) -> Vec<u8> {
        let mut request = Vec::new();
        let heading = self.heading(method, &dialog.target, unit);
        heading.in_dialog(&self.subscribers, branch, dialog, &mut request);
        request
    }

    /// The ACK of a final response other than 2xx (RFC 3261 section 17.1.1.3).
    pub(super) fn acknowledge_refusal(&self, unit: Unit, response: &Message<'_>) -> Vec<u8> {
        let mut request = Vec::new();
        let mut ack = RequestWriter::begin(&mut request, Method::Ack, &self.callee(unit))
            .header(HeaderName::MaxForwards, b"70");
        for name in [
            HeaderName::Via,
            HeaderName::From,
            HeaderName::To,
            HeaderName::CallId,
        ] {
            ack = ack.header(name, response.header(name).unwrap_or_default());
        }
        ack.header(HeaderName::CSeq, format!("{} ACK", unit.cseq).as_bytes())
            .finish();
        request
    }

    fn heading<'a>(&'a self, method: Method<'a>, uri: &'a [u8], unit: Unit) -> Heading<'a> {
        Heading {
            method,
            uri,
            port: &self.port,
            phone: unit.user,
            number: unit.number,
            cseq: unit.cseq,
        }
    }

    fn domain(&self) -> Vec<u8> {
        [b"sip:", self.subscribers.domain.as_bytes()].concat()
    }

    fn callee(&self, unit: Unit) -> Vec<u8> {
        let mut uri = Vec::new();
        push_uri(&mut uri, &self.subscribers, unit.callee);
        uri
    }
}
