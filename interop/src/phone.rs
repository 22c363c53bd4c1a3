//! The common parts of all telephones: commands for calls, and the messages in their logs.

use crate::edge::Edge;
use crate::messages::header;
use crate::server::Server;
use sip_transport::Protocol;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The account of a telephone, its protocol to the server, and its media.
#[derive(Clone, Debug)]
pub struct Account {
    /// The subscriber.
    pub user: String,
    /// The protocol to the server.
    pub protocol: Protocol,
    /// Whether its media suit a browser: ICE and DTLS-SRTP.
    pub for_browsers: bool,
    /// The address and the certificate of the edge through which it reaches the server.
    edge: Option<(SocketAddr, PathBuf)>,
}

impl Account {
    /// The account of a subscriber, over UDP.
    pub fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            protocol: Protocol::Udp,
            for_browsers: false,
            edge: None,
        }
    }

    /// Selects another protocol.
    #[must_use]
    pub fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// Selects media that suit a browser.
    #[must_use]
    pub fn for_browsers(self) -> Self {
        Self {
            for_browsers: true,
            ..self
        }
    }

    /// Selects an edge and the protocol to it. Without one, the telephone reaches the server itself.
    #[must_use]
    pub fn through(self, edge: &Edge, protocol: Protocol) -> Self {
        Self {
            protocol,
            edge: Some((edge.address_of(protocol), edge.certificate())),
            ..self
        }
    }

    /// The certificate of the authority that the telephone trusts.
    pub(crate) fn authority(&self, server: &Server) -> PathBuf {
        let edge = self.edge.as_ref();
        edge.map_or_else(
            || server.certificate(),
            |(_, certificate)| certificate.clone(),
        )
    }

    /// The URI of the server or the edge, with its protocol.
    pub(crate) fn proxy(&self, server: &Server) -> String {
        let edge = self.edge.as_ref().map(|(address, _)| *address);
        let address = edge.unwrap_or_else(|| server.address_of(self.protocol));
        let transport = self.protocol.via_token().to_ascii_lowercase();
        format!("sip:{address};transport={transport}")
    }
}

/// An event of a call, as a telephone reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A call comes in.
    Called,
    /// The other side rings.
    Rings,
    /// Both sides can talk.
    Established,
    /// The call has ended.
    Over,
}

/// A registered telephone. Its commands and events concern one call at a time.
pub trait Phone {
    /// Its name, for messages of the tests.
    fn name(&self) -> &'static str;
    /// Calls a URI.
    fn dial(&mut self, uri: &str);
    /// Answers the ringing call.
    fn accept(&mut self);
    /// Ends, cancels or rejects the call.
    fn hang_up(&mut self);
    /// Waits for this event. Earlier calls have consumed earlier events.
    fn wait_until(&mut self, moment: Moment);
    /// Waits until sound has arrived, if the telephone can tell.
    fn wait_for_sound(&mut self) {}
    /// Everything it has logged, including its messages.
    fn log(&self) -> String;
}

/// The last request of a method that a telephone received through the server, from its log. Requests that it sent itself
/// have only one Via.
pub fn last_received(trace: &str, method: &str) -> Option<ReceivedRequest> {
    let beginning = format!("{method} sip");
    let text = trace.replace('\r', "");
    let mut starts = text.rmatch_indices(&beginning).map(|(at, _)| at);
    starts.find_map(|at| ReceivedRequest::parse(text.get(at..)?))
}

/// The path of a request, from its Via and Record-Route header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The protocol from the caller to the server.
    pub upstream: String,
    /// The protocol from the server to the callee.
    pub downstream: String,
    /// The port of the sender, if the sender asked for it.
    pub port: Option<u16>,
    /// The server's Record-Route values, the callee's side first.
    pub record_routes: Vec<String>,
}

impl ReceivedRequest {
    /// Parses a message that ends at an empty line.
    fn parse(text: &str) -> Option<Self> {
        let values = |name| {
            let values = header(text, name).into_iter();
            values.flat_map(|value| value.split(',')).map(str::trim)
        };
        let vias: Vec<&str> = values("Via").collect();
        let [server, sender] = vias.as_slice() else {
            return None;
        };
        Some(Self {
            upstream: protocol_of(sender)?,
            downstream: protocol_of(server)?,
            port: port_of(sender),
            record_routes: values("Record-Route").map(str::to_owned).collect(),
        })
    }
}

/// The protocol of a Via: `TCP` for `SIP/2.0/TCP host:port;branch=…`.
fn protocol_of(via: &str) -> Option<String> {
    let (protocol, _) = via.strip_prefix("SIP/2.0/")?.split_once(' ')?;
    Some(protocol.to_owned())
}

/// The port that the server wrote into a Via on request (RFC 3581).
fn port_of(via: &str) -> Option<u16> {
    let mut params = via.split(';');
    params
        .find_map(|param| param.strip_prefix("rport="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "#\nTCP 127.0.0.1:1 -> 127.0.0.1:2\nBYE sip:bob@127.0.0.1 SIP/2.0\r\n\
        Via: SIP/2.0/TCP 127.0.0.1:5060;branch=a\r\nVia: SIP/2.0/WSS x.invalid;branch=b;rport=99\r\n\
        Record-Route: <sip:a;lr>,<sip:b;lr>\r\n\r\n#\nBYE sip:alice@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:2\r\n\r\n";

    #[test]
    fn the_request_that_came_through_the_server_is_found_in_a_trace() {
        let found = last_received(TRACE, "BYE").expect("a BYE");
        assert_eq!(
            (&*found.upstream, &*found.downstream),
            ("WSS", "TCP"),
            "{found:?}"
        );
        assert_eq!(found.port, Some(99));
        assert_eq!(found.record_routes, ["<sip:a;lr>", "<sip:b;lr>"]);
        assert_eq!(last_received(TRACE, "ACK"), None);
    }
}
