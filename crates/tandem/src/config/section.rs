//! Typed sections: `section!` and `choice!` of `declare.rs` declare them, and everything else follows from the declaration.
//!
//! A section is a struct with a field for each key and each section nested in it. The type of a nested section says how often it occurs:
//! `Limits` once, `Option<Limits>` at most once, `Vec<Replica>` any number of times. A choice is a section whose first key selects the
//! others. To add a section, declare its type and name it in the section that contains it.
use super::catalogue::{Changes, Key};
use super::read::TableReader;

/// A typed section of the file.
pub trait Section: Clone + Default + PartialEq {
    /// Description; lines of Markdown.
    const DOC: &'static str;
    /// Reads the section. Invalid values are reported through the reader and replaced by their defaults.
    fn read(table: &TableReader<'_, '_>) -> Self;
    /// The keys and the nested sections, in the order of the reference.
    fn members() -> Vec<Member>;
    /// The keys and the nested sections that have a value.
    fn values(&self) -> Values;
}

/// A section that is larger than the other choices of its enum.
impl<S: Section> Section for Box<S> {
    const DOC: &'static str = S::DOC;

    fn read(table: &TableReader<'_, '_>) -> Self {
        Self::new(S::read(table))
    }

    fn members() -> Vec<Member> {
        S::members()
    }

    fn values(&self) -> Values {
        S::values(self)
    }
}

/// Names and values of a section.
pub type Values = Vec<(&'static str, Value)>;

/// The value of a member of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a key in TOML.
    Key(String),
    /// A section that occurs at most once.
    Table(Values),
    /// A section that may occur several times.
    Tables(Vec<Values>),
}

/// How often a nested section occurs in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurs {
    /// Once. If the file does not contain it, its keys have their defaults.
    Once,
    /// At most once.
    AtMostOnce,
    /// Any number of times (`[[name]]`).
    Repeatedly,
}

/// A key or a nested section.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name inside the section.
    pub name: &'static str,
    /// The choices that have this member (`type = "internal"`); empty if it does not depend on a choice.
    pub when: Vec<String>,
    /// What it is.
    pub kind: MemberKind,
}

/// What a member of a section is.
#[derive(Clone, Debug)]
pub enum MemberKind {
    /// A key.
    Key(Key),
    /// A section inside the section.
    Section {
        /// How often it occurs.
        occurs: Occurs,
        /// Its description.
        doc: &'static str,
        /// Its own members.
        members: Vec<Member>,
    },
}

impl Member {
    /// A key that does not depend on a choice.
    pub const fn key(key: Key) -> Self {
        Self {
            name: key.name,
            when: Vec::new(),
            kind: MemberKind::Key(key),
        }
    }

    fn section<S: Section>(name: &'static str, occurs: Occurs) -> Self {
        Self {
            name,
            when: Vec::new(),
            kind: MemberKind::Section {
                occurs,
                doc: S::DOC,
                members: S::members(),
            },
        }
    }

    /// When a change takes effect; a section needs a restart if one of its keys does.
    fn changes(&self) -> Changes {
        match &self.kind {
            MemberKind::Key(key) => key.changes,
            MemberKind::Section { members, .. } => {
                let restarts = |member: &Self| member.changes() == Changes::Restart;
                if members.iter().any(restarts) {
                    Changes::Restart
                } else {
                    Changes::Reload
                }
            }
        }
    }
}

/// The type of a field that holds a nested section.
pub trait Nested: Sized {
    /// The entry in the list of members.
    fn member(name: &'static str) -> Member;
    /// Reads it from the table that contains it.
    fn read_in(parent: &TableReader<'_, '_>, name: &'static str, absent: Self) -> Self;
    /// Its value; `None` if it does not occur.
    fn value(&self) -> Option<Value>;
}

impl<S: Section> Nested for S {
    fn member(name: &'static str) -> Member {
        Member::section::<S>(name, Occurs::Once)
    }

    fn read_in(parent: &TableReader<'_, '_>, name: &'static str, _: Self) -> Self {
        parent.section(name)
    }

    fn value(&self) -> Option<Value> {
        Some(Value::Table(self.values()))
    }
}

impl<S: Section> Nested for Option<S> {
    fn member(name: &'static str) -> Member {
        Member::section::<S>(name, Occurs::AtMostOnce)
    }

    fn read_in(parent: &TableReader<'_, '_>, name: &'static str, absent: Self) -> Self {
        parent.optional_section(name).or(absent)
    }

    fn value(&self) -> Option<Value> {
        self.as_ref().map(|section| Value::Table(section.values()))
    }
}

impl<S: Section> Nested for Vec<S> {
    fn member(name: &'static str) -> Member {
        Member::section::<S>(name, Occurs::Repeatedly)
    }

    fn read_in(parent: &TableReader<'_, '_>, name: &'static str, absent: Self) -> Self {
        let sections = parent.sections(name);
        if sections.is_empty() {
            absent
        } else {
            sections
        }
    }

    fn value(&self) -> Option<Value> {
        let tables = self.iter().map(Section::values).collect();
        (!self.is_empty()).then_some(Value::Tables(tables))
    }
}

/// Adds the members of one choice to a section. A member that several choices have is listed once, with all of them.
pub fn add_choice(members: &mut Vec<Member>, choice: &str, added: Vec<Member>) {
    for mut member in added {
        member.when.push(choice.to_owned());
        match members.iter_mut().find(|other| other.name == member.name) {
            Some(other) => other.when.append(&mut member.when),
            None => members.push(member),
        }
    }
}

/// The paths of the members that differ between two values of a section, and when each change takes effect.
///
/// A section that may be absent or occur several times is named as a whole.
pub fn differences(members: &[Member], old: &Values, new: &Values) -> Vec<(String, Changes)> {
    let mut found = Vec::new();
    for member in members {
        let of = |values: &Values| {
            let named = values.iter().find(|(name, _)| *name == member.name);
            named.map(|(_, value)| value.clone())
        };
        match (&member.kind, of(old), of(new)) {
            (_, old, new) if old == new => {}
            (
                MemberKind::Section { members, .. },
                Some(Value::Table(old)),
                Some(Value::Table(new)),
            ) => found.extend(
                differences(members, &old, &new)
                    .into_iter()
                    .map(|(path, changes)| (format!("{}.{path}", member.name), changes)),
            ),
            _ => found.push((member.name.to_owned(), member.changes())),
        }
    }
    found
}
