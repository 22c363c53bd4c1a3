//! Writes a configuration as TOML, and compares two configurations.
use super::Loaded;
use super::catalogue::{Changes, Chapter, chapters};
use super::gateway_account::Password;
use super::section::{Section, Value, Values, differences};
use super::sections::Configuration;
use super::values::redis_url::RedisUrl;
use std::fmt::Write as _;

impl Configuration {
    /// The chapters of the reference, in order.
    pub fn chapters() -> Vec<Chapter> {
        chapters::<Self>()
    }

    /// The configuration as TOML: every key that has a value, including defaults.
    pub fn to_toml(&self) -> String {
        to_toml(&self.values(), &|_, line| line)
    }

    /// A copy to show, without passwords.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        shown.database.url = self.database.url.shown();
        shown.events.publish = self.events.publish.as_ref().map(RedisUrl::shown);
        shown.dialogs.store = self.dialogs.store.shown();
        shown.location.store = self.location.store.shown();
        for gateway in &mut shown.gateway {
            let password = &mut gateway.account.password;
            *password = password.as_ref().map(Password::shown);
        }
        if !self.trace.hep_key.is_empty() {
            "…".clone_into(&mut shown.trace.hep_key);
        }
        shown
    }

    /// The paths of the keys that differ between two configurations, and when each change takes effect.
    pub fn differences(&self, other: &Self) -> Vec<(String, Changes)> {
        differences(&Self::members(), &self.values(), &other.values())
    }
}

/// The configuration as TOML, with the variable of each value that comes from the environment. Values that come from a file named there
/// may be secrets and are left out, as are the passwords in URLs.
pub fn effective(loaded: &Loaded) -> String {
    let with_source = |path: &str, line: String| match loaded.places.variable(path) {
        None => line,
        Some(name) if loaded.places.is_secret(path) => {
            format!("# {path} is not shown: it comes from the file that {name} names")
        }
        Some(name) => format!("{line} # {name}"),
    };
    to_toml(&loaded.configuration.shown().values(), &with_source)
}

/// Writes values; `finish` turns the path of a key and its line into the line to write.
pub(super) fn to_toml(values: &Values, finish: &dyn Fn(&str, String) -> String) -> String {
    let mut text = String::new();
    write(&mut text, "", "", values, finish);
    text
}

/// Writes a section: its keys, then the sections nested in it. `name` is the name in headers, `path` tells repeated sections apart.
fn write(
    text: &mut String,
    name: &str,
    path: &str,
    values: &Values,
    finish: &dyn Fn(&str, String) -> String,
) {
    let inner = |outer: &str, key: &str| match outer {
        "" => key.to_owned(),
        outer => format!("{outer}.{key}"),
    };
    for (key, value) in values {
        if let Value::Key(value) = value {
            let line = finish(&inner(path, key), format!("{key} = {value}"));
            let _ = writeln!(text, "{line}");
        }
    }
    for (key, value) in values {
        let (name, path) = (inner(name, key), inner(path, key));
        match value {
            Value::Key(_) => {}
            Value::Table(values) => {
                let _ = write!(text, "\n[{name}]\n");
                write(text, &name, &path, values, finish);
            }
            Value::Tables(tables) => {
                for (index, values) in tables.iter().enumerate() {
                    let _ = write!(text, "\n[[{name}]]\n");
                    write(text, &name, &format!("{path}[{index}]"), values, finish);
                }
            }
        }
    }
}
