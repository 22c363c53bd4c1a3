//! The catalogue: what a key is, and the macro that makes a section's type, its reader and its reference from one list.
use super::read::TableReader;
use super::value::Setting;

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// With `config.reload` or SIGHUP.
    Reload,
    /// With the next start; a reload that changes it is refused.
    Restart,
}

/// One key of the file.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name inside its section.
    pub name: &'static str,
    /// What it decides; lines of Markdown.
    pub doc: &'static str,
    /// What is allowed, as a phrase: "a whole number from 1 to 64".
    pub allowed: String,
    /// Its default in TOML; `None` where leaving it out means something of its own.
    pub default: Option<String>,
    /// A value in TOML to show: the default, or an example where there is none.
    pub example: String,
    /// When a change takes effect.
    pub changes: Changes,
}

/// A part of the file that belongs together.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// Table name; empty for the keys above the first table.
    pub name: &'static str,
    /// Whether it may be given several times (`[[name]]`).
    pub repeated: bool,
    /// What it is about; lines of Markdown.
    pub doc: &'static str,
    /// Its keys, in the order of the reference.
    pub keys: Vec<Key>,
}

impl Chapter {
    /// How the section is begun in the file: `[name]` or `[[name]]`; empty for the top.
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
    /// Table name; empty for the top.
    const NAME: &'static str;
    /// Whether it may be given several times.
    const REPEATED: bool;
    /// Reads it; what is wrong is reported through the reader and replaced by the default.
    fn read(table: &TableReader<'_, '_>) -> Self;
    /// Its part of the reference.
    fn chapter() -> Chapter;
    /// Its keys and their values in TOML; those that are not set are left out.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// The keys that differ between two of them, with the time their change takes effect.
    fn differences(&self, other: &Self) -> Vec<(&'static str, Changes)>;
}

type Admits<T> = Box<dyn Fn(&T) -> bool>;

/// What values of a type a key takes.
pub struct Rule<T> {
    /// Appended to what the type itself expects: " from 1 to 64".
    allowed: String,
    admits: Admits<T>,
    /// Shown in the reference where the default is "not set".
    example: Option<T>,
}

impl<T: Setting> Rule<T> {
    /// Whether the key takes this value.
    pub fn admits(&self, value: &T) -> bool {
        (self.admits)(value)
    }

    /// The phrase that says what the key takes.
    pub fn phrase(&self) -> String {
        format!("{}{}", T::expected(), self.allowed)
    }
}

/// Whatever the type takes.
pub fn any<T: Setting>() -> Rule<T> {
    Rule {
        allowed: String::new(),
        admits: Box::new(|_| true),
        example: None,
    }
}

/// From `low` to `high`, both included.
pub fn between<T: Setting + PartialOrd + 'static>(low: T, high: T) -> Rule<T> {
    Rule {
        allowed: format!(" from {} to {}", low.to_prose(), high.to_prose()),
        admits: Box::new(move |value| *value >= low && *value <= high),
        example: None,
    }
}

/// Whatever the type takes, or nothing; the reference shows `example`.
pub fn optional<T: Setting>(example: T) -> Rule<T> {
    Rule {
        example: Some(example),
        ..any()
    }
}

/// From `low` to `high`, both included, or nothing; the reference shows `example`.
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

/// At least one element.
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
    /// From what the macro knows.
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

/// Declares a section: `when name: Type = default, rule;` for each key, `when` being `reload` or `restart`.
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
