//! Header fields that a rule adds to the forwarded request, removes from it or sets in it.

use super::field_name::FieldName;
use sip_message::{HeaderName, Patch};

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

    /// Applies the edits to a copy of a request. Apply them after what removes header fields of untrusted senders, so that a rule can
    /// add such a header field.
    pub fn apply(&self, patch: &mut Patch<'_, '_>) {
        for edit in &self.0 {
            match edit {
                HeaderEdit::Remove(name) => remove(name, patch),
                HeaderEdit::Replace(name, value) => {
                    remove(name, patch);
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

fn remove(name: &FieldName, patch: &mut Patch<'_, '_>) {
    if name.known() != HeaderName::Other {
        patch.remove(name.known());
        return;
    }
    patch.remove_raw(|written| name.is_written(written));
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
