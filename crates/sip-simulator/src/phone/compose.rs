//! Writes messages as a phone does: plain text, without the stack under test.
use super::Phone;
use super::session::Offer;
use sip_message::{HeaderName, Message, Method, Uri};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The body that phones offer.
const SDP: &str = "v=0\r\no=- 1 1 IN IP4 10.9.9.9\r\ns=-\r\nc=IN IP4 10.9.9.9\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8\r\n";

/// A request before it is written: the parts that survive a challenge.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) method: Method<'static>,
    pub(crate) uri: String,
    /// From, with its tag.
    pub(crate) from: String,
    /// To, with its tag if it has one.
    pub(crate) to: String,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    pub(crate) routes: Vec<String>,
    /// Contact value.
    pub(crate) contact: Option<String>,
    pub(crate) expires: Option<u32>,
    /// Session timers, if the phone supports them.
    pub(crate) session: Option<Offer>,
    pub(crate) with_body: bool,
}

impl Draft {
    /// Writes the request. `authorization` is a whole header line.
    pub(crate) fn write(&self, via: &str, authorization: Option<&str>) -> Rc<[u8]> {
        let method = String::from_utf8_lossy(self.method.as_bytes()).into_owned();
        let mut text = String::with_capacity(800);
        let _ = write!(
            text,
            "{method} {} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n",
            self.uri, self.from, self.to, self.call_id, self.cseq
        );
        for route in &self.routes {
            let _ = write!(text, "Route: {route}\r\n");
        }
        if let Some(contact) = &self.contact {
            let _ = write!(text, "Contact: {contact}\r\n");
        }
        if let Some(expires) = self.expires {
            let _ = write!(text, "Expires: {expires}\r\n");
        }
        if let Some(session) = &self.session {
            session.write(&mut text);
        }
        if let Some(authorization) = authorization {
            let _ = write!(text, "{authorization}\r\n");
        }
        text.push_str("User-Agent: simulated\r\n");
        finish(text, self.with_body)
    }

    /// The next hop: the topmost Route; in a dialog without a Route, the Request-URI; otherwise the outbound proxy.
    pub(crate) fn next_hop(&self, outbound: SocketAddr) -> SocketAddr {
        let route = self.routes.first().map(|route| {
            route
                .trim_start_matches('<')
                .split('>')
                .next()
                .unwrap_or("")
        });
        let in_dialog = self.to.contains(">;tag=").then_some(&self.uri[..]);
        route
            .or(in_dialog)
            .and_then(literal_address)
            .unwrap_or(outbound)
    }
}

fn finish(mut text: String, with_body: bool) -> Rc<[u8]> {
    if with_body {
        let _ = write!(
            text,
            "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}",
            SDP.len()
        );
    } else {
        text.push_str("Content-Length: 0\r\n\r\n");
    }
    text.into_bytes().into()
}

/// The address of a URI whose host is a literal address.
pub(crate) fn literal_address(uri: &str) -> Option<SocketAddr> {
    let uri = Uri::parse(uri.as_bytes())?;
    match uri.host {
        sip_message::Host::Address(ip) => Some(SocketAddr::new(ip, uri.port.unwrap_or(5060))),
        sip_message::Host::Name(_) => None,
    }
}

/// Converts the bytes of a header field to text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The values of a list header field as text.
pub(crate) fn values(message: &Message<'_>, name: HeaderName) -> Vec<String> {
    message.values(name).map(text).collect()
}

/// Writes a response (section 8.2.6). `session` are whole header lines.
pub(crate) fn response(
    request: &Message<'_>,
    status: u16,
    to_tag: &str,
    contact: Option<&str>,
    session: &str,
    body: bool,
) -> Rc<[u8]> {
    let mut out = String::with_capacity(600);
    let _ = write!(
        out,
        "SIP/2.0 {status} {}\r\n",
        sip_message::reason_phrase(status)
    );
    for via in request.values(HeaderName::Via) {
        let _ = write!(out, "Via: {}\r\n", text(via));
    }
    if status < 300 {
        for route in request.values(HeaderName::RecordRoute) {
            let _ = write!(out, "Record-Route: {}\r\n", text(route));
        }
    }
    let header = |name| text(request.header(name).unwrap_or_default());
    let mut to = header(HeaderName::To);
    if status > 100 && request.to().is_some_and(|to| to.tag().is_none()) {
        let _ = write!(to, ";tag={to_tag}");
    }
    let _ = write!(out, "From: {}\r\nTo: {to}\r\n", header(HeaderName::From));
    let _ = write!(
        out,
        "Call-ID: {}\r\nCSeq: {}\r\n",
        header(HeaderName::CallId),
        header(HeaderName::CSeq)
    );
    if let Some(contact) = contact {
        let _ = write!(out, "Contact: <{contact}>\r\n");
    }
    out.push_str(session);
    finish(out, body)
}

/// Where a response goes (section 18.2.2, RFC 3581): `received` and `rport` of the topmost Via, otherwise sent-by.
pub(crate) fn response_destination(request: &Message<'_>, source: SocketAddr) -> SocketAddr {
    let Some(via) = request.top_via() else {
        return source;
    };
    let sent_by: Option<IpAddr> = match via.host {
        sip_message::Host::Address(ip) => Some(ip),
        sip_message::Host::Name(_) => None,
    };
    let ip = via.received().or(sent_by).unwrap_or_else(|| source.ip());
    let port = match via.rport() {
        Some(Some(port)) => port,
        // As the server, use the port that the request came from.
        Some(None) => source.port(),
        None => via.port.unwrap_or(5060),
    };
    SocketAddr::new(ip, port)
}

impl Phone {
    /// Creates a Via value with a new branch. Returns both.
    pub(crate) fn new_via(&mut self) -> (String, String) {
        let branch = format!("z9hG4bK{}", self.dice.token());
        let sent_by = self.sent_by();
        (
            format!("SIP/2.0/UDP {sent_by};branch={branch};rport"),
            branch,
        )
    }

    /// The sent-by of the phone's Via.
    pub(crate) fn sent_by(&self) -> String {
        if self.profile.hides_behind_rport {
            "192.168.178.20:5060".to_owned()
        } else {
            self.address.to_string()
        }
    }

    /// The From value with a tag.
    pub(crate) fn own_from(&self, tag: &str) -> String {
        format!(
            "\"{}\" <{}>;tag={tag}",
            self.profile.user,
            self.profile.uri()
        )
    }

    /// Creates a new Call-ID.
    pub(crate) fn new_call_id(&mut self) -> String {
        format!("{}@{}", self.dice.token(), self.address.ip())
    }
}
