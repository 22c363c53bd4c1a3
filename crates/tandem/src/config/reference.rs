//! Generates `docs/configuration.md` and `tandem.example.toml` from the catalogue.
use super::catalogue::{Changes, Chapter, Key, Section};
use super::sections::{Configuration, Listen};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Configuration

`tandem serve --config tandem.toml` reads one TOML file. Every key has a default, so the file contains only the keys that you want to
change, and `tandem serve` also runs without a file. Tandem rejects unknown keys and invalid values, and reports the line, the value and
what is allowed. `tandem check --config tandem.toml` finds all errors without starting the server, and prints what would run.

SIGHUP or `tandem ctl config.reload` reads the file again, together with the certificates that it names. A reload applies all changes or
none: if anything is wrong, nothing changes and the response says why. The response also names each worker that did not take the order
([admin](admin.md)). Keys marked *restart* cannot change while the server runs.

`tandem check --reference` generates this page. [tandem.example.toml](../tandem.example.toml) contains every key with its default.

";

/// The reference in Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for chapter in Configuration::chapters() {
        write_chapter(&mut page, &chapter);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn write_chapter(page: &mut String, chapter: &Chapter) {
    let title = match chapter.name {
        "" => "Above the first section".to_owned(),
        _ => format!("`{}`", chapter.header()),
    };
    let _ = writeln!(page, "## {title}\n\n{}\n", joined(chapter.doc));
    let _ = writeln!(page, "```toml");
    if !chapter.name.is_empty() {
        let _ = writeln!(page, "{}", chapter.header());
    }
    for key in &chapter.keys {
        let _ = writeln!(page, "{} = {}", key.name, key.example);
    }
    let _ = writeln!(page, "```\n");
    for key in &chapter.keys {
        write_key(page, chapter, key);
    }
}

fn write_key(page: &mut String, chapter: &Chapter, key: &Key) {
    let path = match chapter.name {
        "" => key.name.to_owned(),
        section => format!("{section}.{}", key.name),
    };
    let default = key
        .default
        .as_ref()
        .map_or_else(|| "not set".to_owned(), |default| format!("`{default}`"));
    let changes = match key.changes {
        Changes::Reload => "on reload",
        Changes::Restart => "on *restart*",
    };
    let _ = writeln!(page, "### `{path}`\n\n{}\n", joined(key.doc));
    let _ = writeln!(
        page,
        "- Value: {}\n- Default: {default}\n- Changes take effect: {changes}\n",
        key.allowed
    );
}

/// Joins the lines of a documentation comment into one paragraph.
fn joined(doc: &str) -> String {
    doc.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

const EXAMPLE_INTRODUCTION: &str = "\
# Every key of Tandem's configuration with its default. To change a key, uncomment its line, which starts with a single #, and edit it.
# You can delete any line. The reference is docs/configuration.md; `tandem check --config FILE` shows what a file means.
";

/// The example file: every key, commented out.
pub fn example() -> String {
    let mut file = EXAMPLE_INTRODUCTION.to_owned();
    for chapter in Configuration::chapters() {
        let _ = writeln!(file, "\n# {}", "-".repeat(98));
        for line in wrapped(chapter.doc) {
            let _ = writeln!(file, "## {line}");
        }
        if !chapter.name.is_empty() {
            let _ = writeln!(file, "# {}", chapter.header());
        }
        for key in &chapter.keys {
            file.push('\n');
            for line in wrapped(key.doc) {
                let _ = writeln!(file, "## {line}");
            }
            let not_set = if key.default.is_none() {
                "; not set by default"
            } else {
                ""
            };
            for line in wrapped(&format!("Value: {}{not_set}.", key.allowed)) {
                let _ = writeln!(file, "## {line}");
            }
            let _ = writeln!(file, "# {} = {}", key.name, key.example);
        }
        if chapter.name == Listen::NAME {
            for listen in Listen::defaults().iter().skip(1) {
                let _ = writeln!(file, "\n# {}", chapter.header());
                for (key, value) in listen.values() {
                    let _ = writeln!(file, "# {key} = {value}");
                }
            }
        }
    }
    file
}

/// Wraps a paragraph into lines of at most 96 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 96 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
