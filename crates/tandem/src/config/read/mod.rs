//! Reads TOML into sections. One pass finds all errors and records where each value comes from.

mod refusal;
mod unknown;

use super::catalogue::Rule;
use super::document::{Document, Source};
use super::environment::{read_text, variable};
use super::section::Section;
use super::values::keyword::{meant, one_of};
use super::values::{Setting, Wrong, text};
use refusal::{Expected, element, refusal, shown};
use std::cell::RefCell;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One table of a document, or a section that the document does not contain.
#[derive(Debug)]
pub struct TableReader<'d, 'i> {
    document: &'d Document<'i>,
    table: Option<&'d DeTable<'i>>,
    /// Path of the section: `workers` or `listen[0]`; empty at the top.
    path: String,
    /// Names in the header: `gateway.limits`; empty at the top.
    name: String,
    /// Header in the file: `[workers]`; empty at the top.
    header: String,
    /// The keys and sections that were looked up: all that the table may contain.
    known: RefCell<Vec<&'static str>>,
    /// The choice that decides about the keys: where it is, and `type = "internal"`.
    choice: RefCell<Option<(Source, String)>>,
}

/// A key that the document contains with an invalid value, which has been reported.
struct Reported;

impl<'d, 'i> TableReader<'d, 'i> {
    /// The keys above the first table.
    pub fn root(document: &'d Document<'i>, table: &'d DeTable<'i>) -> Self {
        Self {
            document,
            table: Some(table),
            path: String::new(),
            name: String::new(),
            header: String::new(),
            known: RefCell::default(),
            choice: RefCell::default(),
        }
    }

    /// Reads the section, and reports every key of the table that the section does not have.
    pub fn read<S: Section>(&self) -> S {
        let section = S::read(self);
        self.refuse_unknown();
        section
    }

    /// The value of a key. Returns its default if the key is absent, or invalid, which is reported.
    pub fn value<T: Setting>(&self, name: &'static str, default: T, rule: &Rule<T>) -> T {
        let expected = Expected {
            value: rule.phrase(),
            element: T::expected_element(),
        };
        let accept = |value: &DeValue<'_>| {
            let read = T::read(value)?;
            rule.admits(&read)
                .then_some(read)
                .ok_or_else(Wrong::default)
        };
        match self.find(name, &expected, accept) {
            Ok(Some(value)) => return value,
            Ok(None) if rule.is_required() => self.report_missing(name, &rule.phrase()),
            Ok(None) | Err(Reported) => {}
        }
        default
    }

    /// The word that selects the other keys of the table; the first one if the key is absent, or invalid, which is reported.
    pub fn choice(&self, name: &'static str, words: &[&'static str]) -> &'static str {
        let expected = Expected {
            value: one_of(words.iter().copied()),
            element: String::new(),
        };
        let accept = |value: &DeValue<'_>| {
            let given = text(value)?;
            let word = words.iter().find(|word| **word == given);
            word.copied()
                .ok_or_else(|| meant(given, words.iter().copied()))
        };
        let found = self.find(name, &expected, accept).ok().flatten();
        let word = found.or_else(|| words.first().copied()).unwrap_or_default();
        let place = self.document.source(&self.path_of(name));
        *self.choice.borrow_mut() = place.map(|place| (place, format!("{name} = \"{word}\"")));
        word
    }

    /// Reads `[name]`; returns the defaults if the section is absent.
    pub fn section<S: Section>(&self, name: &'static str) -> S {
        match self.table_of(name) {
            Ok(Some(inner)) => inner.read(),
            Ok(None) => self.inner(name, self.path_of(name), None).read(),
            Err(Reported) => S::default(),
        }
    }

    /// Reads `[name]`; returns `None` if the section is absent.
    pub fn optional_section<S: Section>(&self, name: &'static str) -> Option<S> {
        self.table_of(name).ok().flatten().map(|inner| inner.read())
    }

    /// Reads every `[[name]]`.
    pub fn sections<S: Section>(&self, name: &'static str) -> Vec<S> {
        self.known.borrow_mut().push(name);
        self.document.add_repeated(&self.path_of(name));
        let Some(value) = self.get(name) else {
            return Vec::new();
        };
        let header = format!("[[{}]]", self.name_of(name));
        let DeValue::Array(array) = value.get_ref() else {
            self.report_not_a_table(name, &header, value);
            return Vec::new();
        };
        let mut read = Vec::new();
        for (index, element) in array.iter().enumerate() {
            let DeValue::Table(table) = element.get_ref() else {
                self.report_not_a_table(name, &header, element);
                continue;
            };
            let path = format!("{}[{index}]", self.path_of(name));
            self.document
                .add_source(&path, Source::Text(element.span().start));
            let inner = Self {
                header: header.clone(),
                ..self.inner(name, path, Some(table))
            };
            read.push(inner.read());
        }
        read
    }

    /// The table `[name]`; `None` if it is absent.
    fn table_of(&self, name: &'static str) -> Result<Option<Self>, Reported> {
        self.known.borrow_mut().push(name);
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.report_not_a_table(name, &format!("[{}]", self.name_of(name)), value);
            return Err(Reported);
        };
        let path = self.path_of(name);
        self.document
            .add_source(&path, Source::Text(value.span().start));
        Ok(Some(self.inner(name, path, Some(table))))
    }

    /// The value of a key from the environment or the file. `accept` turns it into what the key means.
    fn find<T>(
        &self,
        name: &'static str,
        expected: &Expected,
        accept: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Reported> {
        self.known.borrow_mut().push(name);
        let path = self.path_of(name);
        // A variable cannot say which of several sections it means.
        if !path.contains('[') {
            let variable = variable(&path);
            self.document.add_variable(&variable);
            match self.document.environment().given(&variable) {
                Err((variable, problem)) => {
                    self.document
                        .report(Some(Source::Variable(variable)), problem);
                    return Err(Reported);
                }
                Ok(Some(given)) => {
                    let source = Source::Variable(given.variable);
                    self.document.add_source(&path, source.clone());
                    return read_text(&given.text, accept)
                        .map(Some)
                        .map_err(|(wrong, value)| {
                            let hidden = given.is_secret || wrong.is_secret;
                            let shown = (!hidden).then_some(given.text.as_str());
                            let message = refusal(&path, shown, &value, wrong, expected);
                            self.document.report(Some(source), message);
                            Reported
                        });
                }
                Ok(None) => {}
            }
        }
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let source = Source::Text(value.span().start);
        self.document.add_source(&path, source);
        accept(value.get_ref()).map(Some).map_err(|wrong| {
            let blamed = element(value, wrong.element).span().start;
            let shown = (!wrong.is_secret).then_some(self.document.text());
            let message = refusal(&path, shown, value, wrong, expected);
            self.document.report(Some(Source::Text(blamed)), message);
            Reported
        })
    }

    fn get(&self, name: &str) -> Option<&'d Spanned<DeValue<'i>>> {
        self.table.and_then(|table| table.get(name))
    }

    fn inner(&self, name: &'static str, path: String, table: Option<&'d DeTable<'i>>) -> Self {
        let name = self.name_of(name);
        Self {
            document: self.document,
            table,
            path,
            header: format!("[{name}]"),
            name,
            known: RefCell::default(),
            choice: RefCell::default(),
        }
    }

    fn path_of(&self, name: &str) -> String {
        joined(&self.path, name)
    }

    fn name_of(&self, name: &str) -> String {
        joined(&self.name, name)
    }

    fn report_missing(&self, name: &str, phrase: &str) {
        let path = self.path_of(name);
        match &*self.choice.borrow() {
            Some((place, choice)) => self.document.report(
                Some(place.clone()),
                format!("`{path}` is missing: `{choice}` requires it: {phrase}"),
            ),
            None => self.document.report_at(
                &self.path,
                format!(
                    "`{path}` is missing: each {} requires it: {phrase}",
                    self.header
                ),
            ),
        }
    }

    fn report_not_a_table(&self, name: &str, header: &str, value: &Spanned<DeValue<'_>>) {
        let path = self.name_of(name);
        let message = match value.get_ref() {
            DeValue::Table(_) | DeValue::Array(_) => {
                format!("write the section `{path}` as {header}")
            }
            _ => {
                let shown = shown(self.document.text(), value);
                format!("`{path} = {shown}`: must be a section that begins with {header}")
            }
        };
        self.document
            .report(Some(Source::Text(value.span().start)), message);
    }
}

fn joined(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    }
}
