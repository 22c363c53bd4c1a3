//! Reads what a REGISTER asks for (RFC 3261 section 10.3, steps 2, 6 and 7). This happens before any binding changes.

use super::refusal::RegisterError;
use crate::location::REG_ID;
use crate::{RegistrarSettings, Settings};
use sip_message::{HeaderName, Message, NameAddr};
use sip_transport::{ConnectionId, Flow, ListenerId};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::SocketAddr;

/// Option tags that the registrar supports in Require (RFC 3327, RFC 5626).
const UNDERSTOOD: [&[u8]; 2] = [b"path", b"outbound"];

/// One hour, in seconds. It replaces a malformed lifetime (sections 10.2.1.1 and 20.19). It is also the shortest lifetime
/// that the registrar must not reject as too brief (section 10.3 step 7).
const ONE_HOUR: u32 = 3600;

/// The q-value of a contact without one.
const DEFAULT_Q: u16 = 1000;

/// The parsed content of a REGISTER.
#[derive(Debug)]
pub(super) struct RegisterRequest<'r> {
    pub(super) call_id: &'r [u8],
    pub(super) cseq: u32,
    pub(super) path: Cow<'r, [u8]>,
    pub(super) user_agent: &'r [u8],
    pub(super) source: SocketAddr,
    pub(super) listener: ListenerId,
    pub(super) connection: ConnectionId,
    pub(super) action: BindingAction<'r>,
    /// The maximum number of contacts of an address of record.
    pub(super) max_contacts: usize,
}

/// The change that a REGISTER asks for.
#[derive(Debug)]
pub(super) enum BindingAction<'r> {
    /// No Contact: list the bindings, change nothing.
    Fetch,
    /// `Contact: *`: end all bindings.
    EndAll,
    /// Create, refresh or end these bindings.
    Contacts(SmallVec<[ContactUpdate<'r>; 1]>),
}

/// One Contact value.
#[derive(Debug)]
pub(super) struct ContactUpdate<'r> {
    /// The URI as received.
    pub(super) uri: &'r [u8],
    pub(super) q: u16,
    /// In seconds, within the registrar's bounds. 0 ends the binding.
    pub(super) lifetime: u32,
    /// In the form of [`crate::location::Binding::instance`].
    pub(super) instance: Cow<'r, [u8]>,
    /// Whether `instance` names a flow (`reg-id`, RFC 5626). If so, this contact replaces an older contact of the same flow.
    pub(super) names_flow: bool,
}

impl<'r> RegisterRequest<'r> {
    /// Reads a REGISTER that was received on `flow`.
    pub(super) fn read(
        request: &'r Message<'_>,
        flow: Flow,
        settings: &Settings,
    ) -> Result<Self, RegisterError> {
        check_require(request)?;
        let bounds = &settings.registrar;
        let action = read_action(request, bounds)?;
        check_security(request, &action)?;
        let missing = RegisterError::Malformed("Bad CSeq or Call-ID");
        Ok(Self {
            call_id: request.call_id().ok_or(missing)?,
            cseq: request
                .cseq()
                .ok_or(RegisterError::Malformed("Bad CSeq"))?
                .number,
            path: if matches!(action, BindingAction::Contacts(_)) {
                read_path(request)?
            } else {
                Cow::default()
            },
            user_agent: request.header(HeaderName::UserAgent).unwrap_or_default(),
            source: flow.remote,
            listener: flow.listener,
            connection: flow.connection,
            action,
            max_contacts: bounds.max_contacts,
        })
    }
}

impl RegisterRequest<'_> {
    /// Whether the response carries `Require: outbound` (RFC 5626 section 6). The phone names a flow, supports outbound,
    /// and the first hop keeps that flow. The first hop is this server, or the edge proxy of the first Path value.
    pub(super) fn is_outbound(&self, request: &Message<'_>) -> bool {
        let BindingAction::Contacts(updates) = &self.action else {
            return false;
        };
        let is_kept = match self.path.as_ref() {
            [] => true,
            _ => request
                .values(HeaderName::Path)
                .next()
                .and_then(NameAddr::parse)
                .and_then(|path| path.uri())
                .is_some_and(|uri| uri.params.contains(b"ob")),
        };
        let names_flow = updates
            .iter()
            .any(|update| update.names_flow && update.lifetime > 0);
        names_flow && is_kept && request.lists_token(HeaderName::Supported, b"outbound")
    }
}

/// Section 8.2.2.3: rejects option tags in Require that the registrar does not support.
fn check_require(request: &Message<'_>) -> Result<(), RegisterError> {
    let mut unsupported = Vec::new();
    for tag in request.values(HeaderName::Require) {
        if !UNDERSTOOD
            .iter()
            .any(|known| known.eq_ignore_ascii_case(tag))
        {
            if !unsupported.is_empty() {
                unsupported.extend_from_slice(b", ");
            }
            unsupported.extend_from_slice(tag);
        }
    }
    if unsupported.is_empty() {
        Ok(())
    } else {
        Err(RegisterError::BadExtension(unsupported))
    }
}

/// Rejects contacts that are not sips for a sips address of record (RFC 3261 section 10.2.1, RFC 5630 section 5.1): a
/// call to a sips address goes to sips contacts only. Ending other contacts is allowed, because a sip and a sips address
/// of record share their bindings.
fn check_security(request: &Message<'_>, action: &BindingAction<'_>) -> Result<(), RegisterError> {
    let to_is_sips = || request.to().is_some_and(|to| is_sips(to.uri_bytes));
    let BindingAction::Contacts(contacts) = action else {
        return Ok(());
    };
    let are_secure = contacts
        .iter()
        .all(|contact| contact.lifetime == 0 || is_sips(contact.uri));
    if are_secure || !to_is_sips() {
        Ok(())
    } else {
        Err(RegisterError::NotSecure)
    }
}

fn is_sips(uri: &[u8]) -> bool {
    let scheme = uri.split_at_checked(5);
    scheme.is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(b"sips:"))
}

fn read_action<'r>(
    request: &'r Message<'_>,
    bounds: &RegistrarSettings,
) -> Result<BindingAction<'r>, RegisterError> {
    let header_expires = request.expires().map(or_one_hour);
    let mut contacts = SmallVec::new();
    let mut ends_all = false;
    // One request can end every binding and create as many. More contacts than that only cost work.
    let most = bounds.max_contacts.saturating_mul(2).max(16);
    for value in request.values(HeaderName::Contact) {
        if value == b"*" {
            ends_all = true;
        } else if contacts.len() >= most {
            return Err(RegisterError::TooManyContacts);
        } else {
            contacts.push(read_contact(value, header_expires, bounds)?);
        }
    }
    if !ends_all {
        return Ok(if contacts.is_empty() {
            BindingAction::Fetch
        } else {
            BindingAction::Contacts(contacts)
        });
    }
    // Step 6.
    if !contacts.is_empty() {
        return Err(RegisterError::Malformed(
            "Bad Contact: * beside other contacts",
        ));
    }
    if header_expires != Some(0) {
        return Err(RegisterError::Malformed("Bad Contact: * needs Expires: 0"));
    }
    Ok(BindingAction::EndAll)
}

fn read_contact<'r>(
    value: &'r [u8],
    header_expires: Option<u32>,
    bounds: &RegistrarSettings,
) -> Result<ContactUpdate<'r>, RegisterError> {
    let contact = NameAddr::parse(value).ok_or(RegisterError::Malformed("Bad Contact"))?;
    let mut update = ContactUpdate {
        uri: contact.uri_bytes,
        q: DEFAULT_Q,
        lifetime: 0,
        instance: Cow::default(),
        names_flow: false,
    };
    let (mut expires, mut reg_id) = (header_expires, None);
    for (name, value) in contact.params.iter() {
        match name.len() {
            1 if name.eq_ignore_ascii_case(b"q") => {
                let bad = RegisterError::Malformed("Bad Contact: q is not between 0 and 1");
                update.q = contact.q().flatten().ok_or(bad)?;
            }
            6 if name.eq_ignore_ascii_case(b"reg-id") => reg_id = value,
            7 if name.eq_ignore_ascii_case(b"expires") => {
                expires = contact.expires().map(or_one_hour);
            }
            13 if name.eq_ignore_ascii_case(b"+sip.instance") => {
                update.instance = Cow::Borrowed(value.unwrap_or_default());
            }
            _ => {}
        }
    }
    update.lifetime = lifetime(expires, bounds)?;
    if let Some(reg_id) = reg_id.filter(|_| !update.instance.is_empty())
        && reg_id.iter().all(u8::is_ascii_digit)
    {
        update.instance = Cow::Owned([&*update.instance, REG_ID, reg_id].concat());
        update.names_flow = true;
    }
    Ok(update)
}

/// The lifetime as given, or one hour if it is malformed.
fn or_one_hour(expires: Option<u32>) -> u32 {
    expires.unwrap_or(ONE_HOUR)
}

/// Applies the bounds to a requested lifetime. Both are in seconds.
fn lifetime(requested: Option<u32>, bounds: &RegistrarSettings) -> Result<u32, RegisterError> {
    let seconds =
        |duration: std::time::Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let shortest = seconds(bounds.min_expires);
    let longest = seconds(bounds.max_expires).max(1);
    match requested {
        Some(0) => Ok(0),
        Some(seconds) if seconds < shortest && seconds < ONE_HOUR => {
            Err(RegisterError::TooBrief(shortest))
        }
        Some(seconds) => Ok(seconds.min(longest)),
        None => Ok(seconds(bounds.default_expires)
            .max(shortest)
            .clamp(1, longest)),
    }
}

/// RFC 3327 section 5.3: joins the values of Path in their order.
fn read_path<'r>(request: &'r Message<'_>) -> Result<Cow<'r, [u8]>, RegisterError> {
    let mut path: Cow<'r, [u8]> = Cow::default();
    for value in request.values(HeaderName::Path) {
        if !value.contains(&b'<') {
            return Err(RegisterError::Malformed("Bad Path: no angle brackets"));
        }
        if path.is_empty() {
            path = Cow::Borrowed(value);
        } else {
            path.to_mut().push(b',');
            path.to_mut().extend_from_slice(value);
        }
    }
    Ok(path)
}
