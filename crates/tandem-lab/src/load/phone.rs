//! The callees: one socket that answers for every registered user, without state.

use super::socket::Socket;
use sip_message::{HeaderName, Message, Method, ResponseWriter, reason_phrase};
use std::io;

/// An SDP answer of ordinary size.
const ANSWER: &[u8] = b"v=0\r\no=callee 2890844730 2890844730 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                        m=audio 49920 RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

#[derive(Debug, Default)]
pub(crate) struct Phone {
    scratch: Vec<u8>,
}

impl Phone {
    /// INVITE gets 180 and 200, everything else but ACK gets 200.
    pub(crate) fn answer(&mut self, bytes: &[u8], socket: &Socket) -> io::Result<()> {
        let Ok(request) = Message::parse(bytes) else {
            return Ok(());
        };
        match request.method() {
            _ if !request.is_request() => Ok(()),
            Method::Ack => Ok(()),
            Method::Invite => {
                self.respond(&request, 180, socket)?;
                self.respond(&request, 200, socket)
            }
            _ => self.respond(&request, 200, socket),
        }
    }

    fn respond(&mut self, request: &Message<'_>, status: u16, socket: &Socket) -> io::Result<()> {
        self.scratch.clear();
        let source = socket.local();
        let mut response = ResponseWriter::begin(
            &mut self.scratch,
            request,
            source,
            status,
            reason_phrase(status),
            Some(b"callee"),
        );
        if request.method() == Method::Invite {
            for route in request.values(HeaderName::RecordRoute) {
                response = response.header(HeaderName::RecordRoute, route);
            }
            response = response.header_with(HeaderName::Contact, |into| {
                into.extend_from_slice(b"<sip:callee@");
                into.extend_from_slice(source.to_string().as_bytes());
                into.push(b'>');
            });
        }
        if status == 200 && request.method() == Method::Invite {
            response.finish_with_body(b"application/sdp", ANSWER);
        } else {
            response.finish();
        }
        socket.send(&self.scratch)
    }
}
