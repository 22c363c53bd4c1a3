//! Errors in a configuration with their place: file, line, column, key, value and what is allowed.
use std::fmt;
pub use tandem_http::rpc::nearest;

/// Where a value comes from; ordered like [`Mistakes::list`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line and column in the file, both from 1.
    Line(usize, usize),
    /// An environment variable.
    Variable(String),
    /// A key or section that is not in the file, or the file as a whole.
    File,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// What is wrong and how to fix it.
    pub message: String,
}

/// All errors of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// The file name as given on the command line, or a placeholder if there is no file.
    pub file: String,
    /// At least one error: those with a line in the order of the file, then those of the environment, then all others.
    pub list: Vec<Mistake>,
}

impl Mistake {
    /// Whether the keys of the admin interface may be other than the operator means: one of them is wrong, or the text is no TOML.
    pub(super) fn may_concern_admin(&self) -> bool {
        self.message.contains("admin") || self.message.starts_with("invalid TOML")
    }
}

impl Mistakes {
    /// A single error without a place in the file.
    pub fn one(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            list: vec![Mistake {
                place: Place::File,
                message: message.into(),
            }],
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Mistake { place, message }) in self.list.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            match place {
                Place::Line(line, column) => {
                    write!(formatter, "{}:{line}:{column}: {message}", self.file)?;
                }
                Place::Variable(name) => write!(formatter, "{name}: {message}")?,
                Place::File => write!(formatter, "{}: {message}", self.file)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// Line and column of a byte offset, from 1; columns count characters.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |rest| rest.chars().count())
        + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a = 1\nbé = 2\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 6), (2, 1));
        assert_eq!(
            line_and_column(text, text.find('=').unwrap_or_default()),
            (1, 3)
        );
        assert_eq!(
            line_and_column(text, text.rfind('=').unwrap_or_default()),
            (2, 4)
        );
    }
}
