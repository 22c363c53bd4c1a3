//! Messages about values that a key does not accept.
use crate::config::values::Wrong;
use toml::Spanned;
use toml::de::DeValue;

/// Maximum number of characters of a value that an error message shows.
const SHOWN: usize = 60;

/// What a key accepts, as phrases.
pub struct Expected {
    /// Of the value.
    pub value: String,
    /// Of an element of a list.
    pub element: String,
}

/// The message about a value that a key does not accept. `source` is the text that the value was parsed from; `None` if the value must not
/// be shown.
pub fn refusal(
    path: &str,
    source: Option<&str>,
    value: &Spanned<DeValue<'_>>,
    wrong: Wrong,
    expected: &Expected,
) -> String {
    let blamed = element(value, wrong.element);
    let (path, must) = match wrong.element {
        Some(index) => (format!("{path}[{index}]"), &expected.element),
        None => (path.to_owned(), &expected.value),
    };
    let what = match source {
        Some(source) => format!("`{path} = {}`", shown(source, blamed)),
        None => format!("`{path}`"),
    };
    let hint = wrong
        .hint
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    format!("{what}: must be {must}{hint}")
}

/// A value as written in its source, on one line and truncated to [`SHOWN`] characters.
pub fn shown(source: &str, value: &Spanned<DeValue<'_>>) -> String {
    let source = source.get(value.span()).unwrap_or_default();
    let mut line: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > SHOWN {
        line = line.chars().take(SHOWN).collect::<String>() + "…";
    }
    line
}

/// The element of a list that is wrong, or the whole value.
pub fn element<'v, 'i>(
    value: &'v Spanned<DeValue<'i>>,
    index: Option<usize>,
) -> &'v Spanned<DeValue<'i>> {
    let of_list = |index| value.get_ref().as_array()?.get(index);
    index.and_then(of_list).unwrap_or(value)
}
