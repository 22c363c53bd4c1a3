//! Reads TOML into sections. One pass finds all errors and records the position of each key.
use super::catalogue::{Rule, Section};
use super::mistake::{Mistake, line_and_column, nearest};
use super::value::{Setting, Wrong};
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of characters of a value that an error message shows.
const SHOWN: usize = 60;

/// Errors and positions found so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// Byte offset and message.
    mistakes: Vec<(Option<usize>, String)>,
    /// Byte offset of each key's value, by path (`listen[0].address`).
    places: BTreeMap<String, usize>,
}

/// A file being read.
#[derive(Debug)]
pub struct Document<'i> {
    text: &'i str,
    findings: RefCell<Findings>,
    /// Section and key names of the whole catalogue, for hints about misplaced keys.
    known: Vec<(String, &'static str)>,
}

impl<'i> Document<'i> {
    /// Creates a document from the text of a file; `known` lists section header and name of every key.
    pub fn new(text: &'i str, known: Vec<(String, &'static str)>) -> Self {
        Self {
            text,
            findings: RefCell::default(),
            known,
        }
    }

    /// Reports an error at a byte offset.
    pub fn report(&self, offset: Option<usize>, message: String) {
        self.findings.borrow_mut().mistakes.push((offset, message));
    }

    /// Reports an error at a key that has been read, or without a place if the file does not contain the key.
    pub fn report_at(&self, path: &str, message: String) {
        let place = self.findings.borrow().places.get(path).copied();
        self.report(place, message);
    }

    /// Whether the file contains this key.
    pub fn is_given(&self, path: &str) -> bool {
        self.findings.borrow().places.contains_key(path)
    }

    /// All errors, in the order of the file; errors without a place come last.
    pub fn into_mistakes(self) -> Vec<Mistake> {
        let mut mistakes = self.findings.into_inner().mistakes;
        mistakes.sort_by_key(|(offset, _)| offset.unwrap_or(usize::MAX));
        mistakes
            .into_iter()
            .map(|(offset, message)| Mistake {
                place: offset.map(|offset| line_and_column(self.text, offset)),
                message,
            })
            .collect()
    }

    /// A value as written in the file, on one line and truncated to [`SHOWN`] characters.
    fn shown(&self, value: &Spanned<DeValue<'_>>) -> String {
        let source = self.text.get(value.span()).unwrap_or_default();
        let mut line: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() > SHOWN {
            line = line.chars().take(SHOWN).collect::<String>() + "…";
        }
        line
    }
}

/// One table of a document.
#[derive(Debug)]
pub struct TableReader<'d, 'i> {
    document: &'d Document<'i>,
    table: &'d DeTable<'i>,
    /// Prefix of key names: `workers.` or `listen[0].`.
    path: String,
    /// Header of the table in the file: `[workers]`.
    header: String,
}

impl<'d, 'i> TableReader<'d, 'i> {
    /// The keys above the first table.
    pub fn root(document: &'d Document<'i>, table: &'d DeTable<'i>) -> Self {
        Self {
            document,
            table,
            path: String::new(),
            header: String::new(),
        }
    }

    /// The value of a key. Returns its default if the key is absent, or invalid, which is reported.
    pub fn value<T: Setting>(&self, name: &str, default: T, rule: &Rule<T>) -> T {
        let Some(value) = self.table.get(name) else {
            return default;
        };
        let path = format!("{}{name}", self.path);
        self.document
            .findings
            .borrow_mut()
            .places
            .insert(path.clone(), value.span().start);
        let wrong = match T::read(value.get_ref()) {
            Ok(read) if rule.admits(&read) => return read,
            Ok(_) => Wrong::default(),
            Err(wrong) => wrong,
        };
        let (path, value) = match wrong.element {
            Some(index) => (format!("{path}[{index}]"), element(value, index)),
            None => (path, value),
        };
        let (shown, phrase) = (self.document.shown(value), rule.phrase());
        let must = if wrong.element.is_some() {
            T::expected_element()
        } else {
            phrase
        };
        let hint = wrong
            .hint
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        self.document.report(
            Some(value.span().start),
            format!("`{path} = {shown}`: must be {must}{hint}"),
        );
        default
    }

    /// Reads `[name]`; returns the defaults if the section is absent.
    pub fn section<S: Section>(&self) -> S {
        let header = format!("[{}]", S::NAME);
        let Some(value) = self.table.get(S::NAME) else {
            return S::default();
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.report_not_a_table(S::NAME, &header, value);
            return S::default();
        };
        self.inner(table, format!("{}.", S::NAME), header).read()
    }

    /// Reads every `[[name]]`.
    pub fn sections<S: Section>(&self) -> Vec<S> {
        let header = format!("[[{}]]", S::NAME);
        let Some(value) = self.table.get(S::NAME) else {
            return Vec::new();
        };
        let DeValue::Array(array) = value.get_ref() else {
            self.report_not_a_table(S::NAME, &header, value);
            return Vec::new();
        };
        let mut read = Vec::new();
        for (index, element) in array.iter().enumerate() {
            match element.get_ref() {
                DeValue::Table(table) => {
                    read.push(
                        self.inner(table, format!("{}[{index}].", S::NAME), header.clone())
                            .read(),
                    );
                }
                _ => self.report_not_a_table(S::NAME, &header, element),
            }
        }
        read
    }

    /// Reports every key of this table that is not in `keys`.
    pub fn refuse_unknown(&self, keys: &[&str]) {
        for (key, value) in self.table {
            let name: &str = key.get_ref();
            if !keys.contains(&name) {
                let is_table =
                    self.header.is_empty() && matches!(value.get_ref(), DeValue::Table(_));
                let message = self.unknown(name, is_table, keys);
                self.document.report(Some(key.span().start), message);
            }
        }
    }

    fn read<S: Section>(&self) -> S {
        let chapter = S::chapter();
        let names: Vec<&str> = chapter.keys.iter().map(|key| key.name).collect();
        self.refuse_unknown(&names);
        S::read(self)
    }

    fn unknown(&self, name: &str, is_table: bool, keys: &[&str]) -> String {
        let what = match (is_table, self.header.as_str()) {
            (true, _) => format!("unknown section [{name}]"),
            (false, "") => format!("unknown key `{name}` above the first section"),
            (false, header) => format!("unknown key `{name}` in {header}"),
        };
        if let Some(near) = nearest(name, keys.iter().copied()) {
            return if is_table {
                format!("{what}: did you mean [{near}]?")
            } else {
                format!("{what}: did you mean `{near}`?")
            };
        }
        let elsewhere = self
            .document
            .known
            .iter()
            .find(|(header, key)| *key == name && *header != self.header);
        match elsewhere {
            Some((header, _)) if header.is_empty() => {
                format!("{what}: it belongs above the first section")
            }
            Some((header, _)) => format!("{what}: it belongs in {header}"),
            None => format!("{what}: expected one of {}", listed(keys)),
        }
    }

    fn report_not_a_table(&self, name: &str, header: &str, value: &Spanned<DeValue<'_>>) {
        let shown = self.document.shown(value);
        let message = match value.get_ref() {
            DeValue::Table(_) | DeValue::Array(_) => {
                format!("write the section `{name}` as {header}")
            }
            _ => format!("`{name} = {shown}`: must be a section that begins with {header}"),
        };
        self.document.report(Some(value.span().start), message);
    }

    fn inner(&self, table: &'d DeTable<'i>, path: String, header: String) -> Self {
        Self {
            document: self.document,
            table,
            path,
            header,
        }
    }
}

fn element<'v, 'i>(value: &'v Spanned<DeValue<'i>>, index: usize) -> &'v Spanned<DeValue<'i>> {
    match value.get_ref() {
        DeValue::Array(array) => array.get(index).unwrap_or(value),
        _ => value,
    }
}

fn listed(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
