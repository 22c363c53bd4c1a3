//! The catalogue: the description of each key, the values that it accepts, and the chapters of the reference.
use super::section::{Member, MemberKind, Occurs, Section};
use super::values::keyword::one_of;
use super::values::{Setting, quoted};

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// On `config.reload` or SIGHUP.
    Reload,
    /// On the next start; a reload that changes it is rejected.
    Restart,
}

/// One key of the file.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name inside its section.
    pub name: &'static str,
    /// Description; lines of Markdown.
    pub doc: &'static str,
    /// Allowed values, as a phrase: "a whole number from 1 to 64".
    pub allowed: String,
    /// Default in TOML; `None` if the key is not set by default.
    pub default: Option<String>,
    /// Whether the file must contain the key.
    pub required: bool,
    /// Value in TOML for the reference: the default, or an example for a key without one.
    pub example: String,
    /// When a change takes effect.
    pub changes: Changes,
}

/// A section of the file, as documented in the reference: a nested section has a chapter of its own.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// Name with the names of the sections that contain it (`gateway.limits`); empty for the keys above the first section.
    pub path: String,
    /// Section header in the file: `[name]` or `[[name]]`; empty for the keys above the first section.
    pub header: String,
    /// Description; lines of Markdown.
    pub doc: &'static str,
    /// The choices that have this section; empty if it does not depend on a choice.
    pub when: Vec<String>,
    /// Keys in the order of the reference.
    pub keys: Vec<ChapterKey>,
}

/// A key in its chapter.
#[derive(Clone, Debug)]
pub struct ChapterKey {
    /// The key.
    pub key: Key,
    /// The choices that have this key (`type = "internal"`); empty if it does not depend on a choice.
    pub when: Vec<String>,
}

impl Chapter {
    /// The choices that have this section, as a phrase; empty if it does not depend on a choice.
    pub fn choices(&self) -> String {
        either(&self.when)
    }
}

impl ChapterKey {
    /// The choices that have this key, as a phrase; empty if it does not depend on a choice.
    pub fn choices(&self) -> String {
        either(&self.when)
    }
}

fn either(choices: &[String]) -> String {
    let quoted: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
    quoted.join(" or ")
}

/// The chapters of a section and of all sections nested in it.
pub fn chapters<S: Section>() -> Vec<Chapter> {
    let top = Chapter {
        path: String::new(),
        header: String::new(),
        doc: S::DOC,
        when: Vec::new(),
        keys: Vec::new(),
    };
    let mut chapters = Vec::new();
    add_chapters(&mut chapters, top, S::members());
    chapters
}

fn add_chapters(chapters: &mut Vec<Chapter>, mut chapter: Chapter, members: Vec<Member>) {
    let mut nested = Vec::new();
    for Member { name, when, kind } in members {
        match kind {
            MemberKind::Key(key) => chapter.keys.push(ChapterKey { key, when }),
            MemberKind::Section {
                occurs,
                doc,
                members,
            } => {
                let path = match chapter.path.as_str() {
                    "" => name.to_owned(),
                    parent => format!("{parent}.{name}"),
                };
                let section = Chapter {
                    header: match occurs {
                        Occurs::Repeatedly => format!("[[{path}]]"),
                        Occurs::Once | Occurs::AtMostOnce => format!("[{path}]"),
                    },
                    path,
                    doc,
                    when,
                    keys: Vec::new(),
                };
                nested.push((section, members));
            }
        }
    }
    chapters.push(chapter);
    for (section, members) in nested {
        add_chapters(chapters, section, members);
    }
}

type Admits<T> = Box<dyn Fn(&T) -> bool>;

/// The values of a type that a key accepts.
pub struct Rule<T> {
    /// Appended to the phrase of the type: " from 1 to 64".
    allowed: String,
    admits: Admits<T>,
    /// Shown in the reference if the key is not set by default.
    example: Option<T>,
    /// Whether the file must contain the key.
    required: bool,
}

impl<T: Setting> Rule<T> {
    /// Whether the key accepts this value.
    pub fn admits(&self, value: &T) -> bool {
        (self.admits)(value)
    }

    /// Whether the file must contain the key.
    pub const fn is_required(&self) -> bool {
        self.required
    }

    /// The phrase that describes the accepted values.
    pub fn phrase(&self) -> String {
        format!("{}{}", T::expected(), self.allowed)
    }
}

/// Every value of the type.
pub fn any<T: Setting>() -> Rule<T> {
    Rule {
        allowed: String::new(),
        admits: Box::new(|_| true),
        example: None,
        required: false,
    }
}

/// Every value of the type, which the file must contain. The default of such a key is only the example in the reference.
pub fn required<T: Setting>() -> Rule<T> {
    Rule {
        required: true,
        ..any()
    }
}

/// Values from `low` to `high`, both included.
pub fn between<T: Setting + PartialOrd + 'static>(low: T, high: T) -> Rule<T> {
    Rule {
        allowed: format!(" from {} to {}", low.to_prose(), high.to_prose()),
        admits: Box::new(move |value| *value >= low && *value <= high),
        ..any()
    }
}

/// Every value of the type, or none; the reference shows `example`.
pub fn optional<T: Setting>(example: T) -> Rule<T> {
    Rule {
        example: Some(example),
        ..any()
    }
}

/// Values from `low` to `high`, both included, or none; the reference shows `example`.
pub fn optional_between<T>(low: T, high: T, example: T) -> Rule<Option<T>>
where
    T: Setting + PartialOrd + 'static,
{
    let rule = between(low, high);
    Rule {
        allowed: rule.allowed,
        admits: Box::new(move |value| value.as_ref().is_none_or(|value| (rule.admits)(value))),
        ..optional(Some(example))
    }
}

/// Lists with at least one element.
pub fn not_empty<T: Setting>() -> Rule<Vec<T>>
where
    Vec<T>: Setting,
{
    Rule {
        allowed: ", at least one".to_owned(),
        admits: Box::new(|list| !list.is_empty()),
        ..any()
    }
}

impl Key {
    /// Builds a key; called by `section!`.
    pub fn new<T: Setting>(
        name: &'static str,
        doc: &'static str,
        changes: Changes,
        default: &T,
        rule: &Rule<T>,
    ) -> Self {
        let written = default.to_toml();
        let example = rule.example.as_ref().and_then(Setting::to_toml);
        Self {
            name,
            doc,
            allowed: rule.phrase(),
            example: example.or_else(|| written.clone()).unwrap_or_default(),
            default: written.filter(|_| !rule.required),
            required: rule.required,
            changes,
        }
    }

    /// Builds the key that selects one of several choices, the first by default; called by `choice!`.
    pub fn of_choice(
        name: &'static str,
        doc: &'static str,
        changes: Changes,
        words: &[&str],
    ) -> Self {
        let default = quoted(words.first().copied().unwrap_or_default());
        Self {
            name,
            doc,
            allowed: one_of(words.iter().copied()),
            example: default.clone(),
            default: Some(default),
            required: false,
            changes,
        }
    }
}
