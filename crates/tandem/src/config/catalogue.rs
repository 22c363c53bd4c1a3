//! The catalogue: the description of a key, and the macro that derives a section's type, reader and reference from one list.
use super::read::TableReader;
use super::value::Setting;

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
    /// Value in TOML for the reference: the default, or an example if there is none.
    pub example: String,
    /// When a change takes effect.
    pub changes: Changes,
}

/// A section of the file, as documented in the reference.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// Table name; empty for the keys above the first table.
    pub name: &'static str,
    /// Whether it may occur several times (`[[name]]`).
    pub repeated: bool,
    /// Description; lines of Markdown.
    pub doc: &'static str,
    /// Keys in the order of the reference.
    pub keys: Vec<Key>,
}

impl Chapter {
    /// Section header in the file: `[name]` or `[[name]]`; empty for the keys above the first table.
    pub fn header(&self) -> String {
        match (self.name, self.repeated) {
            ("", _) => String::new(),
            (name, false) => format!("[{name}]"),
            (name, true) => format!("[[{name}]]"),
        }
    }
}

/// A typed section of the file.
pub trait Section: Default + PartialEq {
    /// Table name; empty for the keys above the first table.
    const NAME: &'static str;
    /// Whether it may occur several times.
    const REPEATED: bool;
    /// Reads the section. Invalid values are reported through the reader and replaced by their defaults.
    fn read(table: &TableReader<'_, '_>) -> Self;
    /// The section's chapter of the reference.
    fn chapter() -> Chapter;
    /// Keys and their values in TOML, without keys that are not set.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// The keys that differ between two values of the section, and when each change takes effect.
    fn differences(&self, other: &Self) -> Vec<(&'static str, Changes)>;
}

type Admits<T> = Box<dyn Fn(&T) -> bool>;

/// The values of a type that a key accepts.
pub struct Rule<T> {
    /// Appended to the phrase of the type: " from 1 to 64".
    allowed: String,
    admits: Admits<T>,
    /// Shown in the reference if the key is not set by default.
    example: Option<T>,
}

impl<T: Setting> Rule<T> {
    /// Whether the key accepts this value.
    pub fn admits(&self, value: &T) -> bool {
        (self.admits)(value)
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
    }
}

/// Values from `low` to `high`, both included.
pub fn between<T: Setting + PartialOrd + 'static>(low: T, high: T) -> Rule<T> {
    Rule {
        allowed: format!(" from {} to {}", low.to_prose(), high.to_prose()),
        admits: Box::new(move |value| *value >= low && *value <= high),
        example: None,
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
        example: Some(Some(example)),
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
        example: None,
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
            default: written,
            changes,
        }
    }
}

/// Declares a section. Each key is a line `when name: Type = default, rule;`, where `when` is `reload` or `restart`.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $type:ident = $name:literal $(, repeated = $repeated:literal)? {
            $(
                $(#[doc = $doc:literal])+
                $changes:ident $key:ident : $value:ty = $default:expr, $rule:expr;
            )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $type {
            $( $(#[doc = $doc])+ pub $key: $value, )+
        }

        impl Default for $type {
            fn default() -> Self {
                Self { $( $key: $default, )+ }
            }
        }

        impl $crate::config::catalogue::Section for $type {
            const NAME: &'static str = $name;
            const REPEATED: bool = false $( || $repeated )?;

            fn read(table: &$crate::config::read::TableReader<'_, '_>) -> Self {
                Self { $( $key: table.value(stringify!($key), $default, &$rule), )+ }
            }

            fn chapter() -> $crate::config::catalogue::Chapter {
                $crate::config::catalogue::Chapter {
                    name: Self::NAME,
                    repeated: Self::REPEATED,
                    doc: concat!($($section_doc, "\n"),+),
                    keys: vec![ $(
                        $crate::config::catalogue::Key::new::<$value>(
                            stringify!($key),
                            concat!($($doc, "\n"),+),
                            section!(@changes $changes),
                            &$default,
                            &$rule,
                        ),
                    )+ ],
                }
            }

            fn values(&self) -> Vec<(&'static str, String)> {
                let values = [$( (stringify!($key), $crate::config::value::Setting::to_toml(&self.$key)) ),+];
                values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }

            fn differences(&self, other: &Self) -> Vec<(&'static str, $crate::config::catalogue::Changes)> {
                let mut found = Vec::new();
                $( if self.$key != other.$key {
                    found.push((stringify!($key), section!(@changes $changes)));
                } )+
                found
            }
        }
    };
    (@changes reload) => { $crate::config::catalogue::Changes::Reload };
    (@changes restart) => { $crate::config::catalogue::Changes::Restart };
}
pub(crate) use section;
