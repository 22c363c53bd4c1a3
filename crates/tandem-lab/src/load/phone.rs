//! The callees: one socket that responds for every registered user, without state.

use super::socket::{Datagram, Socket};
use sip_message::{HeaderName, Message, Method, ResponseWriter, reason_phrase};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// An SDP answer of ordinary size.
const ANSWER: &[u8] = b"v=0\r\no=callee 2890844730 2890844730 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                        m=audio 49920 RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

#[derive(Debug, Default)]
pub(crate) struct Phone {
    scratch: Vec<u8>,
}

impl Phone {
    /// INVITE gets 180 and 200; other requests except ACK get 200.
    pub(crate) fn answer(&mut self, datagram: Datagram<'_>, socket: &Socket) -> io::Result<()> {
        let Ok(request) = Message::parse(datagram.bytes) else {
            return Ok(());
        };
        match request.method() {
            _ if !request.is_request() => Ok(()),
            Method::Ack => Ok(()),
            Method::Invite => {
                self.respond(&request, 180, datagram.to, socket)?;
                self.respond(&request, 200, datagram.to, socket)
            }
            _ => self.respond(&request, 200, datagram.to, socket),
        }
    }

    /// Responds from the address that the request was sent to.
    fn respond(
        &mut self,
        request: &Message<'_>,
        status: u16,
        at: IpAddr,
        socket: &Socket,
    ) -> io::Result<()> {
        self.scratch.clear();
        let callee = Callee {
            address: SocketAddr::new(at, socket.local().port()),
            parameter: "",
            tag: b"callee",
        };
        callee.respond(request, status, &mut self.scratch);
        socket.send(&self.scratch, at)
    }
}

/// The responding phone and its address.
pub(crate) struct Callee<'c> {
    pub(crate) address: SocketAddr,
    /// Parameter of its contact, with the semicolon.
    pub(crate) parameter: &'c str,
    /// Tag of its end of the dialog.
    pub(crate) tag: &'c [u8],
}

impl Callee<'_> {
    pub(crate) fn respond(&self, request: &Message<'_>, status: u16, into: &mut Vec<u8>) {
        let is_invite = request.method() == Method::Invite;
        let phrase = reason_phrase(status);
        let mut response =
            ResponseWriter::begin(into, request, self.address, status, phrase, Some(self.tag));
        if is_invite {
            for route in request.values(HeaderName::RecordRoute) {
                response = response.header(HeaderName::RecordRoute, route);
            }
            response = response.header_with(HeaderName::Contact, |into| {
                let contact = format!("<sip:callee@{}{}>", self.address, self.parameter);
                into.extend_from_slice(contact.as_bytes());
            });
        }
        if status == 200 && is_invite {
            response.finish_with_body(b"application/sdp", ANSWER);
        } else {
            response.finish();
        }
    }
}
