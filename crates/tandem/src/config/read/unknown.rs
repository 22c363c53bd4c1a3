//! Messages about keys and sections that a table cannot contain.
use super::TableReader;
use crate::config::catalogue::Chapter;
use crate::config::document::Source;
use crate::config::mistake::nearest;
use toml::de::DeValue;

impl TableReader<'_, '_> {
    /// Reports every key of the table that was not looked up.
    pub(super) fn refuse_unknown(&self) {
        let known = self.known.borrow();
        for (key, value) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let message = self.unknown(name, value.get_ref(), &known);
                self.document
                    .report(Some(Source::Text(key.span().start)), message);
            }
        }
    }

    fn unknown(&self, name: &str, value: &DeValue<'_>, known: &[&str]) -> String {
        let chapters = self.document.chapters();
        let header_of = |name: &str| {
            let path = self.name_of(name);
            let chapter = chapters.iter().find(|chapter| chapter.path == path);
            chapter.map(|chapter| chapter.header.clone())
        };
        let as_section = match value {
            DeValue::Table(_) => Some(format!("[{}]", self.name_of(name))),
            DeValue::Array(array) if array.iter().any(|element| element.get_ref().is_table()) => {
                Some(format!("[[{}]]", self.name_of(name)))
            }
            _ => None,
        };
        let choice = self.choice.borrow();
        let what = match (as_section, self.header.as_str(), &*choice) {
            (Some(section), ..) => format!("unknown section {section}"),
            (_, "", _) => format!("unknown key `{name}` above the first section"),
            (_, header, None) => format!("unknown key `{name}` in {header}"),
            (_, header, Some((_, choice))) => {
                format!("unknown key `{name}` in {header} with `{choice}`")
            }
        };
        if let Some(when) = self.other_choice(name, chapters) {
            return format!("{what}: it requires {when}");
        }
        if let Some(near) = nearest(name, known.iter().copied()) {
            let near = header_of(near).unwrap_or_else(|| format!("`{near}`"));
            return format!("{what}: did you mean {near}?");
        }
        let elsewhere = chapters.iter().find(|chapter| {
            chapter.header != self.header && chapter.keys.iter().any(|entry| entry.key.name == name)
        });
        match elsewhere {
            Some(chapter) if chapter.header.is_empty() => {
                format!("{what}: it belongs above the first section")
            }
            Some(chapter) => format!("{what}: it belongs in {}", chapter.header),
            None => format!("{what}: expected one of {}", listed(known)),
        }
    }

    /// The choices in this section that have the key, if the choice in the file does not.
    fn other_choice(&self, name: &str, chapters: &[Chapter]) -> Option<String> {
        let own = chapters.iter().find(|chapter| chapter.path == self.name)?;
        let entry = own.keys.iter().find(|entry| entry.key.name == name)?;
        Some(entry.choices())
    }
}

fn listed(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
