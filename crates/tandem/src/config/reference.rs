//! Generates the reference pages and example files from the catalogue: of the server, of an edge, of the controller.
use super::catalogue::{Changes, Chapter, ChapterKey};
use super::controller::ControllerConfiguration;
use super::section::Section as _;
use super::sections::{Balancer, Configuration, Listen};
use super::write::to_toml;
use std::fmt::Write as _;

const INTRODUCTION: &str = r#"# Configuration

`tandem serve --config tandem.toml` reads one TOML file. Every key has a default, so the file contains only the keys that you want to
change, and `tandem serve` also runs without a file. Tandem rejects unknown keys and invalid values, and reports the line, the value and
what is allowed. `tandem check --config tandem.toml` finds all errors without starting the server, and prints what would run.

SIGHUP or `tandem ctl reload` reads the file again, together with the certificates that it names. A reload applies all changes or
none: if anything is wrong, nothing changes and the response says why. The response also names each worker that did not take the order
([admin](admin.md)). Keys marked *restart* cannot change while the server runs.

## Environment

An environment variable overrides a key of the file: `TANDEM_`, the section, `_` and the key, in upper case. `TANDEM_ADMIN_LISTEN` sets
`admin.listen`, and `TANDEM_DOMAINS` sets `domains`. The value is written as in the file, but a string needs no quotes:

```sh
TANDEM_DATABASE_URL=sqlite:/var/lib/tandem/tandem.db
TANDEM_WORKERS_COUNT=4
TANDEM_DOMAINS='["example.org", "example.net"]'
```

With `_FILE` after its name, a variable names a file that contains the value, such as a secret of a container:
`TANDEM_DATABASE_URL_FILE=/run/secrets/url`. Line ends at the end of the file are removed. `tandem check --effective` does not show such a value.

- Only the file can set the keys of a section that may occur several times, such as `[[listen]]`.
- Tandem rejects an unknown variable that begins with `TANDEM_`, like an unknown key. `TANDEM_CONFIG` names the file, as `--config` does.
- Variables that Kubernetes sets in every pod for a Service whose name begins with `tandem` (`…_SERVICE_HOST`, `…_PORT…`) are ignored.
- `tandem check --effective` prints the value of every key, and the variable that it comes from.
- A reload reads the named files again. The variables themselves do not change while the server runs.

`tandem check --reference` generates this page. [tandem.example.toml](../tandem.example.toml) contains every key with its default.

"#;

const CONTROLLER_INTRODUCTION: &str = "\
# Configuration of the controller

`tandem control --config control.toml` reads one TOML file. It must contain the keys without a default. The controller rejects unknown keys and
invalid values, and reports the line, the value and what is allowed. `tandem control --check --config control.toml` finds all errors without
starting it. Environment variables override keys, as for [the server](configuration.md#environment): `TANDEM_API_LISTEN` sets `api.listen`.
The file is read at the start only.

";

const EDGE_INTRODUCTION: &str = "\
# Configuration of an edge

`tandem balance --config edge.toml` reads one TOML file. It must name the nodes, in `[[member]]` sections, in `nodes.file` or through
`nodes.controller`. All other keys have defaults. The edge rejects unknown keys and invalid values, and reports the line, the value and what is
allowed. Environment variables override keys, as for [the server](configuration.md#environment): `TANDEM_NODES_PROBE_INTERVAL` sets
`nodes.probe_interval`.

SIGHUP reads the nodes again (`[[member]]`, or the file that `nodes.file` names), and the files of the certificates. If something is invalid, the
edge keeps what it has and logs the reason. Other keys change at the next start. Sections that the server has too have the same keys and defaults. [Edges](edge.md) describes how an edge works, and
[edge.example.toml](../edge.example.toml) contains every key with its default.

";

/// The reference in Markdown.
pub fn reference() -> String {
    page(INTRODUCTION, &Configuration::chapters())
}

/// The reference of the controller's file in Markdown.
pub fn controller_reference() -> String {
    let chapters = ControllerConfiguration::chapters();
    let with_keys: Vec<Chapter> = chapters
        .into_iter()
        .filter(|it| !it.keys.is_empty())
        .collect();
    page(CONTROLLER_INTRODUCTION, &with_keys)
}

/// The reference of the file of an edge in Markdown.
pub fn edge_reference() -> String {
    page(EDGE_INTRODUCTION, &Balancer::chapters())
}

fn page(introduction: &str, chapters: &[Chapter]) -> String {
    let mut page = introduction.to_owned();
    for chapter in chapters {
        write_chapter(&mut page, chapter);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn write_chapter(page: &mut String, chapter: &Chapter) {
    let title = match chapter.header.as_str() {
        "" => "Above the first section".to_owned(),
        header => format!("`{header}`"),
    };
    let _ = writeln!(page, "## {title}\n\n{}\n", joined(chapter.doc));
    if !chapter.when.is_empty() {
        let _ = writeln!(page, "Only with {}.\n", chapter.choices());
    }
    let _ = writeln!(page, "```toml");
    if !chapter.header.is_empty() {
        let _ = writeln!(page, "{}", chapter.header);
    }
    for entry in &chapter.keys {
        // The first choice is shown; keys of others would be wrong beside it.
        let lead = if entry.when.is_empty() { "" } else { "# " };
        let _ = writeln!(page, "{lead}{} = {}", entry.key.name, entry.key.example);
    }
    let _ = writeln!(page, "```\n");
    for entry in &chapter.keys {
        write_key(page, chapter, entry);
    }
}

fn write_key(page: &mut String, chapter: &Chapter, entry: &ChapterKey) {
    let key = &entry.key;
    let path = match chapter.path.as_str() {
        "" => key.name.to_owned(),
        section => format!("{section}.{}", key.name),
    };
    let changes = match key.changes {
        Changes::Reload => "on reload",
        Changes::Restart => "on *restart*",
    };
    let _ = writeln!(page, "### `{path}`\n\n{}\n", joined(key.doc));
    if !entry.when.is_empty() {
        let _ = writeln!(page, "- Only with {}", entry.choices());
    }
    let default = match &key.default {
        Some(default) => format!("`{default}`"),
        None if key.required => "none; the key is required".to_owned(),
        None => "not set".to_owned(),
    };
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

const EDGE_EXAMPLE_INTRODUCTION: &str = "\
# Every key of an edge's configuration with its default. To change a key, uncomment its line, which starts with a single #, and edit it.
# An edge needs its nodes: [[member]], nodes.file or nodes.controller. The reference is docs/edge-configuration.md.
";

/// The section whose defaults are several sections.
const LISTEN: &str = "listen";

/// The example file: every key, commented out.
pub fn example() -> String {
    example_of(EXAMPLE_INTRODUCTION, &Configuration::chapters())
}

/// The example file of an edge: every key, commented out.
pub fn edge_example() -> String {
    example_of(EDGE_EXAMPLE_INTRODUCTION, &Balancer::chapters())
}

fn example_of(introduction: &str, chapters: &[Chapter]) -> String {
    let mut file = introduction.to_owned();
    for chapter in chapters {
        let _ = writeln!(file, "\n# {}", "-".repeat(98));
        for line in wrapped(chapter.doc) {
            let _ = writeln!(file, "## {line}");
        }
        if !chapter.header.is_empty() {
            let _ = writeln!(file, "# {}", chapter.header);
        }
        for entry in &chapter.keys {
            write_example(&mut file, entry);
        }
        if chapter.path == LISTEN {
            for listen in Listen::defaults().iter().skip(1) {
                let _ = writeln!(file, "\n# {}", chapter.header);
                for line in to_toml(&listen.values(), &|_, line| line).lines() {
                    let _ = writeln!(file, "# {line}");
                }
            }
        }
    }
    file
}

fn write_example(file: &mut String, entry: &ChapterKey) {
    let key = &entry.key;
    file.push('\n');
    for line in wrapped(key.doc) {
        let _ = writeln!(file, "## {line}");
    }
    let default = match key.default {
        Some(_) => "",
        None if key.required => "; required",
        None => "; not set by default",
    };
    let only = match entry.choices().as_str() {
        "" => String::new(),
        choices => format!("; only with {choices}"),
    };
    for line in wrapped(&format!("Value: {}{default}{only}.", key.allowed)) {
        let _ = writeln!(file, "## {line}");
    }
    let _ = writeln!(file, "# {} = {}", key.name, key.example);
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
