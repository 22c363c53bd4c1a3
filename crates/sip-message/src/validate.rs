//! Checks whether a message is sound enough to act on: RFC 3261 sections 8.1.1, 8.2 and 16.3, and the invalid messages of RFC
//! 4475.
use crate::grammar::{List, any, equal, is_token, parse_u32, split_comma, trim};
use crate::message::start_line::StartLine;
use crate::{HeaderName, Message, Method, NameAddr, Scheme, Uri, Via};

/// Why a message is rejected: the status to answer (a response is dropped instead), and the header field at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// 400, 505, 416 (unknown scheme of the Request-URI; urn is known, for services: RFC 5031), 501 (unknown method whose `CSeq` disagrees), 513 (in a stream).
    pub status: u16,
    /// The header field at fault; `None` for the start line.
    pub header: Option<HeaderName>,
    /// Reason phrase that says what is wrong and names the header field, such as `Bad CSeq: number above 2^32-1`.
    pub reason: &'static str,
}

/// A 400 because of a header field.
const fn bad(header: HeaderName, reason: &'static str) -> Malformed {
    Malformed {
        status: 400,
        header: Some(header),
        reason,
    }
}

/// A rejection because of the start line.
const fn bad_start(status: u16, reason: &'static str) -> Malformed {
    Malformed {
        status,
        header: None,
        reason,
    }
}

impl Message<'_> {
    /// Like [`Message::validate`], for messages received over a stream. There only Content-Length says where a message ends
    /// (sections 18.3 and 20.14), so it is mandatory. A message whose end has not arrived is longer than the receiver accepts
    /// (section 21.5.7).
    pub fn validate_in_stream(&self) -> Result<(), Malformed> {
        let too_large = |header| Malformed {
            status: 513,
            header: Some(header),
            reason: "Message Too Large",
        };
        if !self.has_whole_header() {
            return Err(too_large(HeaderName::Invalid));
        }
        let length = self.header(HeaderName::ContentLength);
        let length = length.ok_or(bad(HeaderName::ContentLength, "Missing Content-Length"))?;
        if parse_u32(length).is_some_and(|length| length as usize > self.available()) {
            return Err(too_large(HeaderName::ContentLength));
        }
        self.validate()
    }

    /// Whether the header ends with an empty line.
    pub const fn has_whole_header(&self) -> bool {
        self.layout.body_start != self.layout.headers_end
    }

    /// Bytes after the header.
    fn available(&self) -> usize {
        self.bytes().len().saturating_sub(self.layout.body_start)
    }

    /// Checks what every SIP element must check: the version; mandatory header fields present once and well-formed (To, From,
    /// Call-ID, `CSeq`, Via, and Max-Forwards, Contact and Content-Length if present); the `CSeq` method equal to the request's;
    /// the Request-URI well-formed; Content-Length not beyond the datagram. Fields that RFC 2543 does not require are optional:
    /// Max-Forwards, branch, From tag.
    pub fn validate(&self) -> Result<(), Malformed> {
        self.check_start_line()?;
        self.check_lines()?;
        self.check_once()?;
        if !self.is_request() {
            return self.check_response();
        }
        self.check_via()?;
        self.check_address(
            HeaderName::From,
            self.from(),
            self.from_uri(),
            "Missing From",
            [
                "Bad From",
                "Bad From: not a valid URI",
                "Bad From: not a valid tag",
            ],
        )?;
        self.check_address(
            HeaderName::To,
            self.to(),
            self.to_uri(),
            "Missing To",
            [
                "Bad To",
                "Bad To: not a valid URI",
                "Bad To: not a valid tag",
            ],
        )?;
        self.check_call_id()?;
        self.check_cseq()?;
        self.check_max_forwards()?;
        self.check_contact()?;
        self.check_routes()?;
        self.check_content_length()
    }

    /// Checks a response, less strictly than a request: its sender has understood the request. Only the sender of the request
    /// judges the addresses in the response. A proxy reads what leads it back: Via, Call-ID, `CSeq`.
    fn check_response(&self) -> Result<(), Malformed> {
        let top_via = self
            .header(HeaderName::Via)
            .ok_or(bad(HeaderName::Via, "Missing Via"))?;
        if trim(top_via).starts_with(b",") || !self.top_via().is_some_and(|via| via.is_sound) {
            return Err(bad(HeaderName::Via, "Bad Via"));
        }
        self.header(HeaderName::From)
            .ok_or(bad(HeaderName::From, "Missing From"))?;
        self.header(HeaderName::To)
            .ok_or(bad(HeaderName::To, "Missing To"))?;
        self.check_call_id()?;
        self.check_cseq()?;
        self.check_content_length()
    }

    fn check_start_line(&self) -> Result<(), Malformed> {
        let (StartLine::Request { version, .. } | StartLine::Response { version, .. }) =
            self.start_line;
        let trimmed = trim(version);
        if !trimmed.eq_ignore_ascii_case(b"SIP/2.0") {
            return Err(bad_start(505, "Version Not Supported"));
        }
        let StartLine::Request { method, .. } = self.start_line else {
            return Ok(());
        };
        if trimmed.len() != version.len() {
            return Err(bad_start(400, "Bad Request-Line: white space at its end"));
        }
        if matches!(method, Method::Other(token) if !is_token(token)) {
            return Err(bad_start(
                400,
                "Bad Request-Line: the method is not a token",
            ));
        }
        match self.uri() {
            None => Err(bad_start(400, "Bad Request-URI")),
            Some(uri) if matches!(uri.scheme, Scheme::Other(it) if !is_urn(it)) => {
                Err(bad_start(416, "Unsupported URI Scheme"))
            }
            Some(uri) if uri.headers.is_some() => Err(bad_start(
                400,
                "Bad Request-URI: header fields are not allowed",
            )),
            Some(_) => Ok(()),
        }
    }

    /// Checks that every line is a header field, that there is no stray CR (other parsers may take it for a line end), and that
    /// the header ends with an empty line.
    fn check_lines(&self) -> Result<(), Malformed> {
        if self.header(HeaderName::Invalid).is_some() {
            return Err(bad(
                HeaderName::Invalid,
                "Bad header line: not a header field",
            ));
        }
        if !self.has_whole_header() {
            return Err(bad(
                HeaderName::Invalid,
                "Bad header: no empty line at its end",
            ));
        }
        if self.has_stray_cr() {
            return Err(bad(HeaderName::Invalid, "Bad header line: CR without LF"));
        }
        Ok(())
    }

    /// Whether there is a stray CR. Counting is enough if every CR of the header ends a line. Folds and bare LFs need a closer
    /// look.
    fn has_stray_cr(&self) -> bool {
        let header = self
            .bytes()
            .get(self.layout.start..self.layout.headers_end)
            .unwrap_or_default();
        let line_starts = self
            .lines
            .iter()
            .map(|line| line.start as usize)
            .chain([self.layout.headers_end]);
        let line_ends = line_starts
            .filter(|&next| self.bytes().get(next.wrapping_sub(2)) == Some(&b'\r'))
            .count();
        memchr::memchr_iter(b'\r', header).count() != line_ends
            && memchr::memchr_iter(b'\r', header).any(|at| header.get(at + 1) != Some(&b'\n'))
    }

    /// Checks that header fields that describe the whole request occur only once (RFC 4475 section 3.3.8).
    fn check_once(&self) -> Result<(), Malformed> {
        const ONCE: [(HeaderName, &str); 9] = [
            (HeaderName::From, "Bad From: more than one"),
            (HeaderName::To, "Bad To: more than one"),
            (HeaderName::CallId, "Bad Call-ID: more than one"),
            (HeaderName::CSeq, "Bad CSeq: more than one"),
            (HeaderName::MaxForwards, "Bad Max-Forwards: more than one"),
            (
                HeaderName::ContentLength,
                "Bad Content-Length: more than one",
            ),
            (HeaderName::ContentType, "Bad Content-Type: more than one"),
            (HeaderName::Expires, "Bad Expires: more than one"),
            (HeaderName::Event, "Bad Event: more than one"),
        ];
        if !self.has_repeated_names() {
            return Ok(());
        }
        match ONCE.iter().find(|(name, _)| self.is_repeated(*name)) {
            Some(&(name, reason)) => Err(bad(name, reason)),
            None => Ok(()),
        }
    }

    fn check_via(&self) -> Result<(), Malformed> {
        let mut count = 0_usize;
        for (_, line) in self.lines_of(HeaderName::Via) {
            let mut rest = Some(self.value_of(line));
            while let Some(list) = rest {
                let (value, behind) = split_comma(list);
                let via = if count == 0 && !trim(value).is_empty() {
                    self.top_via()
                } else {
                    Via::parse(value)
                };
                if !via.is_some_and(|via| via.is_sound) {
                    return Err(bad(HeaderName::Via, "Bad Via"));
                }
                count += 1;
                rest = behind;
            }
        }
        if count == 0 {
            Err(bad(HeaderName::Via, "Missing Via"))
        } else {
            Ok(())
        }
    }

    fn check_address(
        &self,
        name: HeaderName,
        address: Option<NameAddr<'_>>,
        uri: Option<&Uri<'_>>,
        missing: &'static str,
        [malformed, bad_uri, bad_tag]: [&'static str; 3],
    ) -> Result<(), Malformed> {
        self.header(name).ok_or(bad(name, missing))?;
        let address = address.filter(|address| address.params.is_well_formed());
        match (address, uri) {
            (None, _) => Err(bad(name, malformed)),
            (_, None) => Err(bad(name, bad_uri)),
            (Some(address), _) if !address.has_sound_tag() => Err(bad(name, bad_tag)),
            _ => Ok(()),
        }
    }

    fn check_call_id(&self) -> Result<(), Malformed> {
        match self.call_id() {
            None => Err(bad(HeaderName::CallId, "Missing Call-ID")),
            Some(value)
                if value.is_empty()
                    || any(value, |octet| u8::from(octet <= b' ') | equal(octet, 0x7f)) =>
            {
                Err(bad(HeaderName::CallId, "Bad Call-ID"))
            }
            Some(_) => Ok(()),
        }
    }

    fn check_cseq(&self) -> Result<(), Malformed> {
        let value = self
            .header(HeaderName::CSeq)
            .ok_or(bad(HeaderName::CSeq, "Missing CSeq"))?;
        let Some(cseq) = self.cseq() else {
            let digits = value
                .iter()
                .take_while(|octet| octet.is_ascii_digit())
                .count();
            let reason = if digits > 9 {
                "Bad CSeq: number above 2^32-1"
            } else {
                "Bad CSeq"
            };
            return Err(bad(HeaderName::CSeq, reason));
        };
        match self.start_line {
            StartLine::Request { method, .. } if method != cseq.method => {
                let status = if matches!(method, Method::Other(_)) {
                    501
                } else {
                    400
                };
                Err(Malformed {
                    status,
                    ..bad(HeaderName::CSeq, "Bad CSeq: not the method of the request")
                })
            }
            _ => Ok(()),
        }
    }

    fn check_max_forwards(&self) -> Result<(), Malformed> {
        match self.max_forwards() {
            Some(None) => Err(bad(
                HeaderName::MaxForwards,
                "Bad Max-Forwards: not a number from 0 to 255",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that each Contact is an address. `*` must be alone, and only in REGISTER (section 10.2.2). For methods in which
    /// Contact has no meaning for a proxy, such as MESSAGE (RFC 3428 section 4), it is not checked.
    fn check_contact(&self) -> Result<(), Malformed> {
        if matches!(
            self.method(),
            Method::Message | Method::Bye | Method::Info | Method::Prack | Method::Publish
        ) {
            return Ok(());
        }
        for (_, line) in self.lines_of(HeaderName::Contact) {
            let value = self.value_of(line);
            if value == b"*" {
                if self.method() != Method::Register || self.is_repeated(HeaderName::Contact) {
                    return Err(bad(
                        HeaderName::Contact,
                        "Bad Contact: * must stand alone, in REGISTER",
                    ));
                }
                continue;
            }
            for contact in List::new(value) {
                let sound = NameAddr::parse(contact).is_some_and(|address| {
                    address.params.is_well_formed() && address.uri().is_some()
                });
                if !sound {
                    return Err(bad(HeaderName::Contact, "Bad Contact"));
                }
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), Malformed> {
        const ROUTES: [(HeaderName, &str); 3] = [
            (HeaderName::Route, "Bad Route"),
            (HeaderName::RecordRoute, "Bad Record-Route"),
            (HeaderName::Path, "Bad Path"),
        ];
        for (name, reason) in ROUTES {
            for (place, value) in self.values(name).enumerate() {
                let is_sound = if name == HeaderName::Route && place == 0 {
                    self.top_route().is_some()
                } else {
                    NameAddr::parse(value).is_some_and(|address| address.uri().is_some())
                };
                if !is_sound {
                    return Err(bad(name, reason));
                }
            }
        }
        Ok(())
    }

    fn check_content_length(&self) -> Result<(), Malformed> {
        let Some(value) = self.header(HeaderName::ContentLength) else {
            return Ok(());
        };
        let length = parse_u32(value).ok_or(bad(
            HeaderName::ContentLength,
            "Bad Content-Length: not a number",
        ))?;
        if usize::try_from(length).is_ok_and(|length| length <= self.available()) {
            Ok(())
        } else {
            Err(bad(
                HeaderName::ContentLength,
                "Bad Content-Length: beyond the end of the message",
            ))
        }
    }
}

/// Whether this is the scheme of `urn:service:sos` (RFC 5031).
const fn is_urn(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"urn")
}
