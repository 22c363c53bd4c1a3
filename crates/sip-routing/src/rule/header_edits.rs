//! Header fields that a rule adds to the forwarded request, removes from it or sets in it.

use super::field_name::FieldName;
use sip_message::{HeaderName, Message, Patch};

/// A change of a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderEdit {
    /// Removes all header fields with this name.
    Remove(FieldName),
    /// Removes all header fields with this name, and adds one with this value.
    Replace(FieldName, Box<str>),
    /// Adds a header field behind all others.
    Add(FieldName, Box<str>),
}

/// The changes of a rule: removals, then replacements, then additions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits(Box<[HeaderEdit]>);

impl HeaderEdits {
    /// Edits in the order in which they are applied.
    pub(super) fn new(edits: Vec<HeaderEdit>) -> Self {
        Self(edits.into())
    }

    /// The edits, in the order in which they are applied.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderEdit> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the edits to a copy of `request`. Apply them after what removes header fields of untrusted senders, so that a rule can
    /// add such a header field.
    pub fn apply(&self, request: &Message<'_>, patch: &mut Patch<'_, '_>) {
        for edit in &self.0 {
            match edit {
                HeaderEdit::Remove(name) => remove(name, request, patch),
                HeaderEdit::Replace(name, value) => {
                    remove(name, request, patch);
                    add(name, value, patch);
                }
                HeaderEdit::Add(name, value) => add(name, value, patch),
            }
        }
    }
}

fn add(name: &FieldName, value: &str, patch: &mut Patch<'_, '_>) {
    if name.known() == HeaderName::Other {
        patch.append_raw(name.as_str().as_bytes(), value.as_bytes());
    } else {
        patch.append(name.known(), value.as_bytes());
    }
}

fn remove(name: &FieldName, request: &Message<'_>, patch: &mut Patch<'_, '_>) {
    if name.known() != HeaderName::Other {
        patch.remove(name.known());
        return;
    }
    for header in request.headers().filter(|header| name.is_of(header)) {
        // A patch groups its edits by name, and knows none for this line. No edit is ever made to Call-ID, so that none can undo this
        // one.
        patch.replace_part(HeaderName::CallId, line(request, header.name_bytes), |_| {});
    }
}

/// The whole line that begins with `name`, a slice of the message: with its folds and its line end.
fn line<'m>(request: &Message<'m>, name: &[u8]) -> &'m [u8] {
    let bytes = request.bytes();
    let start = name.as_ptr() as usize - bytes.as_ptr() as usize;
    let line = bytes.get(start..).unwrap_or_default();
    let is_end = |(index, octet): (usize, &u8)| {
        *octet == b'\n' && !matches!(line.get(index + 1), Some(b' ' | b'\t'))
    };
    let end = line.iter().enumerate().position(is_end);
    line.get(..end.map_or(line.len(), |end| end + 1))
        .unwrap_or_default()
}

/// Why a rule must not change a header field; `None` if it may.
pub(super) fn protection(name: &FieldName) -> Option<&'static str> {
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|other| name.as_str().eq_ignore_ascii_case(other))
    };
    Some(match name.known() {
        HeaderName::Via
        | HeaderName::Route
        | HeaderName::RecordRoute
        | HeaderName::MaxForwards
        | HeaderName::MaxBreadth
        | HeaderName::Path
        | HeaderName::ServiceRoute => "the server writes it when it forwards the request",
        HeaderName::CallId | HeaderName::CSeq | HeaderName::From | HeaderName::To => {
            "it identifies the dialog and the transaction"
        }
        HeaderName::Contact => "it says where the requests of the dialog go",
        HeaderName::ContentLength | HeaderName::ContentType => "it describes the body",
        HeaderName::Authorization
        | HeaderName::ProxyAuthorization
        | HeaderName::WwwAuthenticate
        | HeaderName::ProxyAuthenticate
        | HeaderName::AuthenticationInfo => "it authenticates a party",
        HeaderName::Require
        | HeaderName::ProxyRequire
        | HeaderName::Supported
        | HeaderName::Unsupported => "the parties negotiate extensions with it",
        HeaderName::SessionExpires | HeaderName::MinSe => "the session timer depends on it",
        HeaderName::Event | HeaderName::ReferTo | HeaderName::Replaces => {
            "the meaning of the request depends on it"
        }
        HeaderName::Other if is(&["Content-Encoding", "Content-Disposition", "MIME-Version"]) => {
            "it describes the body"
        }
        HeaderName::Other if is(&["RSeq", "RAck"]) => {
            "it identifies the dialog and the transaction"
        }
        _ => return None,
    })
}
