//! A configuration while it is read: its text, the environment, the errors found so far, and where each value comes from.
use super::catalogue::Chapter;
use super::environment::{Environment, is_file_of, likely, variable};
use super::mistake::{Mistake, Place, line_and_column};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Byte offset in the text of the file.
    Text(usize),
    /// An environment variable.
    Variable(String),
}

#[derive(Debug, Default)]
struct Findings {
    mistakes: Vec<(Option<Source>, String)>,
    /// By path: `listen[0].address`, and `listen[0]` for the section itself.
    sources: BTreeMap<String, Source>,
    /// The variables of all keys that were looked up.
    variables: Vec<String>,
    /// Paths of sections that may occur several times.
    repeated: Vec<String>,
}

/// A configuration being read.
#[derive(Debug)]
pub struct Document<'i> {
    text: &'i str,
    environment: &'i Environment,
    chapters: Vec<Chapter>,
    findings: RefCell<Findings>,
}

/// Where each value of a configuration comes from. The keys that are not in it have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Place>);

impl Places {
    /// The place of a key or a section; that of its section if neither file nor environment sets the key.
    pub fn of(&self, path: &str) -> Place {
        let own = self.0.get(path);
        let section = || {
            path.rsplit_once('.')
                .and_then(|(section, _)| self.0.get(section))
        };
        own.or_else(section).cloned().unwrap_or(Place::File)
    }

    /// Whether a key has its value from a file that a variable names, so that the value must not be shown.
    pub fn is_secret(&self, path: &str) -> bool {
        let name = self.variable(path);
        name.is_some_and(|name| name != variable(path))
    }

    /// The environment variable that sets a key.
    pub fn variable(&self, path: &str) -> Option<&str> {
        match self.0.get(path)? {
            Place::Variable(name) => Some(name),
            Place::Line(..) | Place::File => None,
        }
    }
}

impl<'i> Document<'i> {
    /// Creates a document from the text of a file and an environment; `chapters` describe all sections, for hints about misplaced keys.
    pub fn new(text: &'i str, environment: &'i Environment, chapters: Vec<Chapter>) -> Self {
        Self {
            text,
            environment,
            chapters,
            findings: RefCell::default(),
        }
    }

    /// The text of the file.
    pub const fn text(&self) -> &'i str {
        self.text
    }

    /// The variables that override keys of the file.
    pub const fn environment(&self) -> &'i Environment {
        self.environment
    }

    /// The descriptions of all sections.
    pub fn chapters(&self) -> &[Chapter] {
        &self.chapters
    }

    /// Reports an error.
    pub fn report(&self, source: Option<Source>, message: String) {
        self.findings.borrow_mut().mistakes.push((source, message));
    }

    /// Reports an error at a key or section that has been read, or without a place if neither file nor environment contains it.
    pub fn report_at(&self, path: &str, message: String) {
        self.report(self.source(path), message);
    }

    /// Whether the value of this key has an error, so that the key has its default.
    pub fn is_wrong(&self, path: &str) -> bool {
        let start = format!("`{path}");
        let findings = self.findings.borrow();
        let mut mistakes = findings.mistakes.iter();
        mistakes.any(|(_, message)| message.starts_with(&start))
    }

    /// Where a key or section that has been read comes from.
    pub fn source(&self, path: &str) -> Option<Source> {
        self.findings.borrow().sources.get(path).cloned()
    }

    /// Whether the file or the environment contains this key.
    pub fn is_given(&self, path: &str) -> bool {
        self.source(path).is_some()
    }

    /// Records where a key or section comes from.
    pub fn add_source(&self, path: &str, source: Source) {
        let mut findings = self.findings.borrow_mut();
        findings.sources.insert(path.to_owned(), source);
    }

    /// Records that a key can be set by this variable.
    pub fn add_variable(&self, variable: &str) {
        let mut findings = self.findings.borrow_mut();
        findings.variables.push(variable.to_owned());
    }

    /// Records that the section with this path may occur several times, so that no variable can set its keys.
    pub fn add_repeated(&self, path: &str) {
        self.findings.borrow_mut().repeated.push(path.to_owned());
    }

    /// Reports every variable of the environment that sets no key.
    pub fn refuse_unknown_variables(&self) {
        for name in self.environment.names() {
            if let Some(message) = self.unknown_variable(name) {
                self.report(Some(Source::Variable(name.to_owned())), message);
            }
        }
    }

    fn unknown_variable(&self, name: &str) -> Option<String> {
        let findings = self.findings.borrow();
        let mut variables = findings.variables.iter();
        if variables.any(|known| known == name || is_file_of(name, known)) {
            return None;
        }
        let belongs = |path: &&String| name.starts_with(&(variable(path) + "_"));
        if let Some(path) = findings.repeated.iter().find(belongs) {
            return Some(format!(
                "unknown variable: only the file can set the keys of [[{path}]], which may occur several times"
            ));
        }
        Some(match likely(name, findings.variables.iter().map(String::as_str)) {
            Some(near) => format!("unknown variable: did you mean {near}?"),
            None => "unknown variable: it must be TANDEM_, the section, _ and the key, in upper case, such as TANDEM_DATABASE_URL".to_owned(),
        })
    }

    /// All errors, in the order of the file, and where each value comes from.
    pub fn finish(self) -> (Vec<Mistake>, Places) {
        let Findings {
            mut mistakes,
            sources,
            ..
        } = self.findings.into_inner();
        let place = |source| match source {
            Source::Text(offset) => {
                let (line, column) = line_and_column(self.text, offset);
                Place::Line(line, column)
            }
            Source::Variable(name) => Place::Variable(name),
        };
        // Errors without a place come last.
        mistakes.sort_by_key(|(source, _)| (source.is_none(), source.clone()));
        let mistakes = mistakes.into_iter().map(|(source, message)| Mistake {
            place: source.map_or(Place::File, place),
            message,
        });
        let mistakes = mistakes.collect();
        let places = sources
            .into_iter()
            .map(|(path, source)| (path, place(source)));
        (mistakes, Places(places.collect()))
    }
}
