//! What the telephones have in common: how they are told to call, and the messages in their logs.

use crate::messages::header;
use crate::server::Server;
use sip_transport::Protocol;

/// Whose telephone it is, how it speaks to the server, and how its media go.
#[derive(Clone, Debug)]
pub struct Account {
    /// The subscriber.
    pub user: String,
    /// How it reaches the server.
    pub protocol: Protocol,
    /// Its media are what a browser takes: ICE and DTLS-SRTP.
    pub for_browsers: bool,
}

impl Account {
    /// Of a subscriber, over UDP.
    pub fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            protocol: Protocol::Udp,
            for_browsers: false,
        }
    }

    /// Over another protocol.
    #[must_use]
    pub fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// With media that a browser takes.
    #[must_use]
    pub fn for_browsers(self) -> Self {
        Self {
            for_browsers: true,
            ..self
        }
    }

    /// The server as a URI that says how to reach it.
    pub(crate) fn proxy(&self, server: &Server) -> String {
        let address = server.address_of(self.protocol);
        let transport = self.protocol.via_token().to_ascii_lowercase();
        format!("sip:{address};transport={transport}")
    }
}

/// What happens to a call, as a telephone tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It comes in.
    Called,
    /// The other side rings.
    Rings,
    /// Both sides can talk.
    Established,
    /// It has ended.
    Over,
}

/// A telephone that has registered. What it is told and what it waits for is one call at a time.
pub trait Phone {
    /// What it is, for whoever reads of it.
    fn name(&self) -> &'static str;
    /// Calls a URI.
    fn dial(&mut self, uri: &str);
    /// Answers the call that rings.
    fn accept(&mut self);
    /// Ends the call, or gives it up, or refuses it.
    fn hang_up(&mut self);
    /// Waits until this happens, after what was already waited for.
    fn wait_until(&mut self, moment: Moment);
    /// Waits until sound has arrived, where the telephone can tell.
    fn wait_for_sound(&mut self) {}
    /// Everything it has logged, its messages among it.
    fn log(&self) -> String;
}

/// The last request of a method that a telephone received through the server, by its log: requests that it sent itself have but
/// one Via.
pub fn last_received(trace: &str, method: &str) -> Option<ReceivedRequest> {
    let beginning = format!("{method} sip");
    let text = trace.replace('\r', "");
    let mut starts = text.rmatch_indices(&beginning).map(|(at, _)| at);
    starts.find_map(|at| ReceivedRequest::parse(text.get(at..)?))
}

/// Which way a request came, by its Via and Record-Route header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// How it came from the caller to the server.
    pub upstream: String,
    /// How it came from the server to the callee.
    pub downstream: String,
    /// The port of the sender, if he asked for it.
    pub port: Option<u16>,
    /// What the server put into Record-Route, the callee's side first.
    pub record_routes: Vec<String>,
}

impl ReceivedRequest {
    /// From the text of a message that goes on until an empty line.
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

/// `TCP` of `SIP/2.0/TCP host:port;branch=…`.
fn protocol_of(via: &str) -> Option<String> {
    let (protocol, _) = via.strip_prefix("SIP/2.0/")?.split_once(' ')?;
    Some(protocol.to_owned())
}

/// What the server has written into a Via that asked for it (RFC 3581).
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
