//! The changes that a rule makes to the forwarded request.

use super::super::action::Decision;
use super::super::description::FieldDescription;
use super::super::field_name::FieldName;
use super::super::header_edits::{HeaderEdit, HeaderEdits, protection};
use super::super::mistake::Problem;
use super::super::number_edit::{NumberEdit, is_prefix};
use super::{Compiler, is_line};

/// The maximum length of a header field value, in bytes.
const MAX_VALUE: usize = 1024;
/// The maximum number of edits of each kind.
const MAX_EDITS: usize = 32;

impl Compiler<'_> {
    pub(super) fn header_edits(&mut self) -> HeaderEdits {
        let description = self.description;
        self.check_count("remove_header", description.remove_header.len());
        self.check_count("replace_header", description.replace_header.len());
        self.check_count("add_header", description.add_header.len());
        let mut edits = Vec::new();
        let mut replaced: Vec<FieldName> = Vec::new();
        for name in &description.remove_header {
            let name = self.field_name("remove_header", name);
            replaced.extend(name.clone());
            edits.extend(name.map(HeaderEdit::Remove));
        }
        for field in &description.replace_header {
            let Some((name, value)) = self.field("replace_header", field) else {
                continue;
            };
            if replaced.contains(&name) {
                self.problem(Problem::RepeatedHeader {
                    key: "replace_header",
                    name: name.as_str().to_owned(),
                });
            }
            replaced.push(name.clone());
            edits.push(HeaderEdit::Replace(name, value));
        }
        for field in &description.add_header {
            let field = self.field("add_header", field);
            edits.extend(field.map(|(name, value)| HeaderEdit::Add(name, value)));
        }
        HeaderEdits::new(edits)
    }

    /// Reports changes to requests that are not forwarded.
    pub(super) fn check_edits_are_used(&mut self, decision: &Decision) {
        let does = match decision {
            Decision::Refuse(_) => "refuses",
            Decision::Redirect(_) => "redirects",
            _ => return,
        };
        let description = self.description;
        for (key, is_there) in [
            ("strip", description.strip > 0),
            ("prefix", description.prefix.is_some()),
            ("add_header", !description.add_header.is_empty()),
            ("remove_header", !description.remove_header.is_empty()),
            ("replace_header", !description.replace_header.is_empty()),
        ] {
            if is_there {
                self.problem(Problem::UselessEdit { key, does });
            }
        }
    }

    fn check_count(&mut self, key: &'static str, count: usize) {
        if count > MAX_EDITS {
            self.problem(Problem::TooManyEntries {
                key,
                count,
                most: MAX_EDITS,
            });
        }
    }

    fn field_name(&mut self, key: &'static str, name: &str) -> Option<FieldName> {
        let parsed = FieldName::parse(name).ok_or_else(|| Problem::HeaderName {
            key,
            name: name.to_owned(),
        });
        let name = self.checked(parsed)?;
        if let Some(why) = protection(&name) {
            self.problem(Problem::ProtectedHeader {
                key,
                name: name.as_str().to_owned(),
                why,
            });
        }
        Some(name)
    }

    fn field(
        &mut self,
        key: &'static str,
        field: &FieldDescription,
    ) -> Option<(FieldName, Box<str>)> {
        if !is_line(&field.value, MAX_VALUE) {
            self.problem(Problem::Text {
                key,
                value: field.value.clone(),
                most: MAX_VALUE,
            });
        }
        let name = self.field_name(key, &field.name)?;
        Some((name, field.value.as_str().into()))
    }

    pub(super) fn number_edit(&mut self) -> Option<NumberEdit> {
        let description = self.description;
        let prefix = description.prefix.as_deref();
        if let Some(prefix) = prefix.filter(|prefix| !is_prefix(prefix)) {
            self.problem(Problem::Prefix(prefix.to_owned()));
        }
        let prefix = prefix.unwrap_or_default();
        (description.strip > 0 || !prefix.is_empty())
            .then(|| NumberEdit::new(description.strip, prefix.into()))
    }
}
