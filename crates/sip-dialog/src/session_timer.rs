//! Session timers as a proxy handles them (RFC 4028 section 8): what a forwarded INVITE or UPDATE asks for, and what its 2xx agrees on.
//!
//! Both are functions of the message and the settings. A proxy must know in the response which interval the request asked for, and
//! whether the caller supports session timers (section 8.1). Our Via carries this as `;se=SECONDS`, and every response returns it. A 2xx
//! that arrives again is therefore forwarded with the same bytes, even if the request has been forgotten.

use sip_message::{HeaderName, Message, Method, Patch, Refresher, SessionInterval};
use std::io::Write as _;
use std::time::Duration;

/// The shortest session interval that may be agreed on, in seconds (RFC 4028 section 4).
const SHORTEST: u32 = 90;

/// The option tag for session timers (section 4).
const OPTION_TAG: &[u8] = b"timer";

/// The parameter of our Via that states the interval of the request. Present only if the caller supports session timers.
const VIA_PARAMETER: &[u8] = b"se";

/// Settings for session timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimerSettings {
    /// The interval that an INVITE asks for at most, in whole seconds. An INVITE without an interval gets this one.
    pub interval: Duration,
    /// The shortest interval that is accepted, in whole seconds. Values below 90 s count as 90 s.
    pub min_interval: Duration,
}

impl Default for SessionTimerSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1_800),
            min_interval: Duration::from_secs(SHORTEST.into()),
        }
    }
}

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// 400 with this reason phrase: a header field is malformed, or occurs more than once.
    Malformed(&'static str),
    /// 422: the interval is too small. The caller supports session timers and can try again.
    TooSmall {
        /// The value of Min-SE in the response, in seconds.
        min_se: u32,
    },
}

/// What the copy of a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Requested<'m> {
    interval: u32,
    /// Session-Expires as received.
    stated: Option<SessionInterval<'m>>,
    /// What Min-SE is set to. `None`: it stays as it is.
    min_se: Option<u32>,
    /// Min-SE as received.
    stated_min_se: Option<SessionInterval<'m>>,
    is_supported: bool,
}

impl SessionTimerSettings {
    /// Determines what the copy of a request asks for (section 8.1). `None` if the copy needs no session timer: only INVITE and UPDATE
    /// refresh a session. An UPDATE without Session-Expires stays without it, because it may belong to a call that is not answered yet.
    ///
    /// # Errors
    /// The request must be rejected.
    pub fn requested<'m>(&self, request: &Message<'m>) -> Result<Option<Requested<'m>>, Rejection> {
        if !matches!(request.method(), Method::Invite | Method::Update) {
            return Ok(None);
        }
        let stated = sole_value(request, HeaderName::SessionExpires).map_err(|NotSole| {
            Rejection::Malformed("Bad Session-Expires: not a single number of seconds")
        })?;
        let stated_min_se = sole_value(request, HeaderName::MinSe).map_err(|NotSole| {
            Rejection::Malformed("Bad Min-SE: not a single number of seconds")
        })?;
        let is_supported = request.lists_token(HeaderName::Supported, OPTION_TAG);
        let ours = seconds(self.min_interval).max(SHORTEST);
        let theirs = stated_min_se.map_or(SHORTEST, |min_se| min_se.seconds.max(SHORTEST));
        let longest = seconds(self.interval).max(ours).max(theirs);
        let (interval, min_se) = match stated {
            None if request.method() == Method::Update => return Ok(None),
            None => (longest, None),
            Some(stated) if stated.seconds < ours && is_supported => {
                return Err(Rejection::TooSmall { min_se: ours });
            }
            // A caller that does not know 422 could not try again, so the request is corrected instead.
            Some(stated) if stated.seconds < ours => (ours.max(theirs), Some(ours.max(theirs))),
            Some(stated) => (stated.seconds.clamp(theirs, longest), None),
        };
        Ok(Some(Requested {
            interval,
            stated,
            min_se,
            stated_min_se,
            is_supported,
        }))
    }
}

impl Requested<'_> {
    /// Sets Session-Expires and, if necessary, Min-SE. Parameters stay as they are.
    pub fn patch(&self, patch: &mut Patch<'_, '_>) {
        set(
            patch,
            HeaderName::SessionExpires,
            self.stated,
            self.interval,
        );
        if let Some(min_se) = self.min_se {
            set(patch, HeaderName::MinSe, self.stated_min_se, min_se);
        }
    }

    /// Appends the parameter of our Via that [`Agreed::of`] reads, if there is one.
    pub fn write_via_param(&self, into: &mut Vec<u8>) {
        if self.is_supported {
            into.push(b';');
            into.extend_from_slice(VIA_PARAMETER);
            into.push(b'=');
            push_number(into, self.interval);
        }
    }
}

/// The session timer that a 2xx to INVITE or UPDATE agrees on, as it goes upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    seconds: u32,
    refresher: Option<Refresher>,
    /// Whether the response states it as received.
    is_stated: bool,
}

impl Agreed {
    /// Reads a response to one of our copies, with our Via on top (section 8.2). If it has no Session-Expires, the callee does not support
    /// session timers. A caller that does support them then refreshes alone.
    ///
    /// `None` for any response but a 2xx to INVITE or UPDATE, and if no session timer runs.
    pub fn of(response: &Message<'_>) -> Option<Self> {
        if !matches!(response.status(), 200..300)
            || !matches!(response.method(), Method::Invite | Method::Update)
        {
            return None;
        }
        if let Some(value) = response.header(HeaderName::SessionExpires) {
            let stated = SessionInterval::parse(value)?;
            return Some(Self {
                seconds: stated.seconds,
                refresher: stated.refresher(),
                is_stated: true,
            });
        }
        let requested = response.top_via()?.params.value(VIA_PARAMETER)?;
        Some(Self {
            seconds: SessionInterval::parse(requested)?.seconds.max(SHORTEST),
            refresher: Some(Refresher::Uac),
            is_stated: false,
        })
    }

    /// How long the session lasts without a refresh, counted from the response. At least 90 s, even if the response states less.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.seconds.max(SHORTEST).into())
    }

    /// Who refreshes the session. `None` if the response does not say so.
    pub const fn refresher(&self) -> Option<Refresher> {
        self.refresher
    }

    /// Tells the caller to refresh the session, unless the response already states who does.
    pub fn patch(&self, patch: &mut Patch<'_, '_>, response: &Message<'_>) {
        if self.is_stated {
            return;
        }
        patch.append_with(HeaderName::SessionExpires, |into| {
            push_number(into, self.seconds);
            into.extend_from_slice(b";refresher=uac");
        });
        if !response.lists_token(HeaderName::Require, OPTION_TAG) {
            patch.append(HeaderName::Require, OPTION_TAG);
        }
    }
}

/// A header field is malformed or occurs more than once.
struct NotSole;

/// The value of a header field that may occur once. `None` if it is absent.
fn sole_value<'m>(
    request: &Message<'m>,
    name: HeaderName,
) -> Result<Option<SessionInterval<'m>>, NotSole> {
    let Some(value) = request.header(name) else {
        return Ok(None);
    };
    let is_sole = request.values(name).nth(1).is_none();
    let interval = SessionInterval::parse(value).filter(|_| is_sole);
    interval.map(Some).ok_or(NotSole)
}

/// Sets the number in a header field, or adds the header field.
fn set(
    patch: &mut Patch<'_, '_>,
    name: HeaderName,
    stated: Option<SessionInterval<'_>>,
    seconds: u32,
) {
    match stated {
        Some(stated) if stated.seconds == seconds => {}
        Some(stated) => {
            patch.replace_part(name, stated.digits, |into| push_number(into, seconds));
        }
        None => {
            patch.append_with(name, |into| push_number(into, seconds));
        }
    }
}

fn push_number(into: &mut Vec<u8>, number: u32) {
    // Writing to a vector cannot fail.
    let _ = write!(into, "{number}");
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
