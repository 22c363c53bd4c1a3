//! Writes new messages: responses to a request, ACK and CANCEL made from an INVITE, and whole requests.
use crate::grammar::{List, find2, is_lws, split_at};
use crate::via_source::push_completed_via;
use crate::{HeaderName, Message, Method};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

mod reason;
pub use reason::reason_phrase;

/// Writes a response to a request (RFC 3261 section 8.2.6). It copies the Via lines (the topmost completed with `received` and
/// `rport` from `source`), From, To (with a tag if it has none), Call-ID and `CSeq`, and nothing more for a dialog-forming 1xx or
/// 2xx. It copies Timestamp into a 100 (section 8.2.6.1). Some of these may be missing or malformed in the request (400
/// responses): those that are present are copied as they are.
#[derive(Debug)]
pub struct ResponseWriter<'o> {
    into: &'o mut Vec<u8>,
}

impl<'o> ResponseWriter<'o> {
    /// Begins a response at the end of `into`. `to_tag` is added to To if To has no tag and the status is not 100. If `reason` is
    /// empty, the standard phrase is used.
    pub fn begin(
        into: &'o mut Vec<u8>,
        request: &Message<'_>,
        source: SocketAddr,
        status: u16,
        reason: &str,
        to_tag: Option<&[u8]>,
    ) -> Self {
        into.reserve(512);
        into.extend_from_slice(b"SIP/2.0 ");
        push_number(into, u32::from(status));
        into.push(b' ');
        push_value(
            into,
            if reason.is_empty() {
                reason_phrase(status)
            } else {
                reason
            }
            .as_bytes(),
        );
        into.extend_from_slice(b"\r\n");
        push_vias(into, request, source);
        push_copy(into, request, HeaderName::From);
        push_to(into, request, to_tag.filter(|_| status != 100));
        push_copy(into, request, HeaderName::CallId);
        push_copy(into, request, HeaderName::CSeq);
        if status == 100 {
            push_copy(into, request, HeaderName::Timestamp);
        }
        Self { into }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(self, name: HeaderName, value: &[u8]) -> Self {
        push_line(self.into, name.as_str().as_bytes(), value);
        self
    }

    /// Adds a header field, formatting in place.
    #[must_use]
    pub fn header_with(self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        push_line_with(self.into, name.as_str().as_bytes(), write);
        self
    }

    /// Adds a header field with any name.
    #[must_use]
    pub fn raw_header(self, name: &[u8], value: &[u8]) -> Self {
        push_line(self.into, name, value);
        self
    }

    /// Adds Content-Length: 0 and ends the response.
    pub fn finish(self) {
        push_end(self.into);
    }

    /// Adds Content-Type, Content-Length and a body.
    pub fn finish_with_body(self, content_type: &[u8], body: &[u8]) {
        push_body(self.into, content_type, body);
    }
}

/// Writes a request from scratch (probes, user agents, tests).
#[derive(Debug)]
pub struct RequestWriter<'o> {
    into: &'o mut Vec<u8>,
}

impl<'o> RequestWriter<'o> {
    /// Begins a request with its request line.
    pub fn begin(into: &'o mut Vec<u8>, method: Method<'_>, uri: &[u8]) -> Self {
        push_request_line(into, method, uri);
        Self { into }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(self, name: HeaderName, value: &[u8]) -> Self {
        push_line(self.into, name.as_str().as_bytes(), value);
        self
    }

    /// Adds a header field, formatting in place.
    #[must_use]
    pub fn header_with(self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        push_line_with(self.into, name.as_str().as_bytes(), write);
        self
    }

    /// Adds a header field with any name.
    #[must_use]
    pub fn raw_header(self, name: &[u8], value: &[u8]) -> Self {
        push_line(self.into, name, value);
        self
    }

    /// Adds Content-Length: 0 and ends the request.
    pub fn finish(self) {
        push_end(self.into);
    }

    /// Adds Content-Type, Content-Length and a body.
    pub fn finish_with_body(self, content_type: &[u8], body: &[u8]) {
        push_body(self.into, content_type, body);
    }
}

/// Appends the ACK for a non-2xx final response (section 17.1.1.3). Request-URI, topmost Via, From, Call-ID, Route and the `CSeq`
/// number are those of `invite` as it was sent. To is that of the response.
pub fn write_ack(into: &mut Vec<u8>, invite: &Message<'_>, response: &Message<'_>) {
    write_companion(into, invite, Method::Ack, response);
    push_end(into);
}

/// Appends the CANCEL of `request` as it was sent (section 9.1), with the To of the request. `reason` is the value of the Reason
/// header field (RFC 3326). With an empty value, the header field is left out.
pub fn write_cancel(into: &mut Vec<u8>, request: &Message<'_>, reason: &[u8]) {
    write_companion(into, request, Method::Cancel, request);
    if !reason.is_empty() {
        push_line(into, b"Reason", reason);
    }
    push_end(into);
}

/// Appends a request that belongs to the transaction of another one, without its end.
fn write_companion(
    into: &mut Vec<u8>,
    request: &Message<'_>,
    method: Method<'_>,
    to_of: &Message<'_>,
) {
    push_request_line(into, method, request.request_uri());
    if let Some(via) = request
        .header(HeaderName::Via)
        .and_then(|value| List::new(value).next())
    {
        push_line(into, b"Via", via);
    }
    for (_, line) in request.lines_of(HeaderName::Route) {
        push_line(into, b"Route", request.value_of(line));
    }
    push_line(into, b"Max-Forwards", b"70");
    push_copy(into, request, HeaderName::From);
    push_copy(into, to_of, HeaderName::To);
    push_copy(into, request, HeaderName::CallId);
    if let Some(cseq) = request.cseq() {
        push_line_with(into, b"CSeq", |into| {
            push_number(into, cseq.number);
            into.push(b' ');
            into.extend_from_slice(method.as_bytes());
        });
    }
}

fn push_request_line(into: &mut Vec<u8>, method: Method<'_>, uri: &[u8]) {
    into.reserve(512);
    push_value(into, method.as_bytes());
    into.push(b' ');
    push_value(into, uri);
    into.extend_from_slice(b" SIP/2.0\r\n");
}

/// Appends all Via lines. The topmost value is completed if it can be parsed.
fn push_vias(into: &mut Vec<u8>, request: &Message<'_>, source: SocketAddr) {
    for (index, (_, line)) in request.lines_of(HeaderName::Via).enumerate() {
        let value = request.value_of(line);
        let top = if index == 0 { request.top_via() } else { None };
        let Some(via) = top else {
            push_line(into, b"Via", value);
            continue;
        };
        let start = into.len();
        into.extend_from_slice(b"Via: ");
        push_completed_via(into, &via, source);
        into.extend_from_slice(
            split_at(
                value,
                crate::grammar::offset_in(value, via.bytes) + via.bytes.len(),
            )
            .1,
        );
        unfold_from(into, start);
        into.extend_from_slice(b"\r\n");
    }
}

fn push_to(into: &mut Vec<u8>, request: &Message<'_>, tag: Option<&[u8]>) {
    let Some(value) = request.header(HeaderName::To) else {
        return;
    };
    let tag = tag.filter(|_| request.to().is_some_and(|to| to.tag().is_none()));
    push_line_with(into, b"To", |into| {
        push_value(into, value);
        if let Some(tag) = tag {
            into.extend_from_slice(b";tag=");
            into.extend_from_slice(tag);
        }
    });
}

/// Appends the first header field with this name, under its long name.
fn push_copy(into: &mut Vec<u8>, message: &Message<'_>, name: HeaderName) {
    if let Some(value) = message.header(name) {
        push_line(into, name.as_str().as_bytes(), value);
    }
}

/// Appends a header field line. Line ends inside the value (folds) become spaces.
pub(crate) fn push_line(into: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    into.extend_from_slice(name);
    into.extend_from_slice(b": ");
    push_value(into, value);
    into.extend_from_slice(b"\r\n");
}

/// Appends a header field line, and formats the value in place.
pub(crate) fn push_line_with(into: &mut Vec<u8>, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
    into.extend_from_slice(name);
    into.extend_from_slice(b": ");
    write(into);
    into.extend_from_slice(b"\r\n");
}

/// Appends a value on one line. Each fold becomes a space, so that the value cannot start a new line.
pub(crate) fn push_value(into: &mut Vec<u8>, value: &[u8]) {
    let start = into.len();
    into.extend_from_slice(value);
    if find2(b'\r', b'\n', value).is_some() {
        unfold_from(into, start);
    }
}

/// Replaces each run of white space that contains a line end by one space, from `start` on.
fn unfold_from(into: &mut Vec<u8>, start: usize) {
    let Some(written) = into.get(start..) else {
        return;
    };
    if find2(b'\r', b'\n', written).is_none() {
        return;
    }
    let mut unfolded = Vec::with_capacity(written.len());
    let mut rest = written;
    while !rest.is_empty() {
        let (text, behind) = crate::grammar::take_while(rest, |octet| !is_lws(octet));
        let (space, behind) = crate::grammar::take_while(behind, is_lws);
        unfolded.extend_from_slice(text);
        if space.iter().any(|octet| matches!(octet, b'\r' | b'\n')) {
            unfolded.push(b' ');
        } else {
            unfolded.extend_from_slice(space);
        }
        rest = behind;
    }
    into.truncate(start);
    into.extend_from_slice(&unfolded);
}

fn push_end(into: &mut Vec<u8>) {
    into.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

fn push_body(into: &mut Vec<u8>, content_type: &[u8], body: &[u8]) {
    push_line(into, b"Content-Type", content_type);
    into.extend_from_slice(b"Content-Length: ");
    push_number(into, u32::try_from(body.len()).unwrap_or(u32::MAX));
    into.extend_from_slice(b"\r\n\r\n");
    into.extend_from_slice(body);
}

/// Appends a decimal number.
pub(crate) fn push_number(into: &mut Vec<u8>, mut number: u32) {
    let mut digits = [b'0'; 10];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(split_at(&digits, digits.len() - used).1);
}

/// Appends a number of up to three digits.
fn push_octet(into: &mut Vec<u8>, octet: u8) {
    if octet >= 100 {
        into.push(b'0' + octet / 100);
    }
    if octet >= 10 {
        into.push(b'0' + octet / 10 % 10);
    }
    into.push(b'0' + octet % 10);
}

/// Appends an address. IPv6 has no brackets.
pub(crate) fn push_address(into: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            push_octet(into, first);
            for octet in rest {
                into.push(b'.');
                push_octet(into, octet);
            }
        }
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => drop(write!(into, "{address}")),
    }
}
