//! Environment variables that override keys of the file: `TANDEM_DATABASE_URL` sets `database.url`.
use super::mistake::nearest;
use super::values::Wrong;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// Every variable with this beginning is one of Tandem's.
const PREFIX: &str = "TANDEM_";

/// A variable with this ending names a file that contains the value.
const FILE: &str = "_FILE";

/// The variable that names the configuration file (`--config`).
const CONFIGURATION_FILE: &str = "TANDEM_CONFIG";

/// Another name of a variable, which other parts of a fleet use, too.
const INSTANCE: (&str, &str) = ("TANDEM_INSTANCE", "TANDEM_FLEET_INSTANCE");

/// The protocols of a Service in Kubernetes.
const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// The maximum size of such a file, in bytes.
const LARGEST_FILE: u64 = 65_536;

/// The variables that begin with `TANDEM_`.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

/// A value from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The variable that sets it.
    pub variable: String,
    /// Its text.
    pub text: String,
    /// Whether the text comes from a file. Such a value may be a secret and must not be shown.
    pub is_secret: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .map(|(name, value)| {
                let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect()
    }

    /// The names of all variables, except those that Kubernetes sets for Services.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = |(name, text): &(&String, &String)| !is_service_link(name, text);
        self.0.iter().filter(own).map(|(name, _)| name.as_str())
    }

    /// The value of a key whose variable is `variable`: the text of the variable, or that of the file that `variable` with `_FILE` names.
    ///
    /// # Errors
    /// The variable that is wrong, and why.
    pub fn given(&self, variable: &str) -> Result<Option<Given>, (String, String)> {
        let named = format!("{variable}{FILE}");
        let given = |variable: &str, text: &str, is_secret| {
            Ok(Some(Given {
                variable: variable.to_owned(),
                text: text.to_owned(),
                is_secret,
            }))
        };
        match (self.0.get(variable), self.0.get(&named)) {
            (None, None) => Ok(None),
            (Some(text), None) => given(variable, text, false),
            (None, Some(file)) => match read_secret(Path::new(file)) {
                Ok(text) => given(&named, text.trim_end_matches(['\r', '\n']), true),
                Err(problem) => Err((named, format!("the file {file} {problem}"))),
            },
            (Some(_), Some(_)) => Err((
                named,
                format!("{variable} is set, too: set only one of the two"),
            )),
        }
    }
}

impl<N: Into<String>, T: Into<String>> FromIterator<(N, T)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(variables: I) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()));
        let (short, full) = INSTANCE;
        let named = |(name, text): (String, String)| {
            let name = if name == short { full.to_owned() } else { name };
            (name, text)
        };
        let variables = variables.map(named);
        Self(variables.filter(|(name, _)| is_for_keys(name)).collect())
    }
}

/// Whether a variable should set a key.
fn is_for_keys(name: &str) -> bool {
    name.starts_with(PREFIX) && name != CONFIGURATION_FILE
}

/// Whether a variable, which sets no key, is one that Kubernetes sets in every pod beside a Service: `TANDEM_SIP_SERVICE_HOST`,
/// `TANDEM_SIP_PORT=udp://10.43.0.17:5060` and `TANDEM_SIP_PORT_5060_UDP_ADDR` for the Service `tandem-sip`.
fn is_service_link(name: &str, text: &str) -> bool {
    let is_url = || {
        PROTOCOLS
            .iter()
            .any(|it| text.starts_with(&format!("{it}://")))
    };
    let names_port = |rest: &str| {
        let mut parts = rest.split('_');
        let number = parts.next().and_then(|part| part.parse::<u16>().ok());
        let protocol = parts.next().unwrap_or_default().to_ascii_lowercase();
        number.is_some() && PROTOCOLS.contains(&&*protocol)
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_url())
        || name
            .match_indices("_PORT_")
            .any(|(at, part)| names_port(&name[at + part.len()..]))
}

/// The variable of the key with this path: `TANDEM_DATABASE_URL` for `database.url`.
pub fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// The variable of a key that `name` may be a misspelling of.
pub fn likely<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<String> {
    let without_prefix = |name: &'k str| name.strip_prefix(PREFIX).unwrap_or(name);
    let known = known.map(without_prefix);
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    if let Some(near) = nearest(name, known.clone()) {
        return Some(format!("{PREFIX}{near}"));
    }
    let near = nearest(name.strip_suffix(FILE)?, known)?;
    Some(format!("{PREFIX}{near}{FILE}"))
}

/// Whether `variable` names a file with the value of the key whose variable is `of`.
pub fn is_file_of(variable: &str, of: &str) -> bool {
    variable.strip_suffix(FILE) == Some(of)
}

/// The TOML value that a text stands for, as `accept` reads it. A text that is not valid TOML, or of which the key takes no TOML value, is
/// a string.
///
/// # Errors
/// What is wrong, and the value that is wrong.
pub fn read_text<T>(
    text: &str,
    accept: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
) -> Result<T, (Wrong, Spanned<DeValue<'_>>)> {
    let parsed = DeValue::parse(text);
    let as_toml = match &parsed {
        Ok(value) => Some(accept(value.get_ref())),
        Err(_) => None,
    };
    if let Some(Ok(value)) = as_toml {
        return Ok(value);
    }
    let bare = Spanned::new(0..text.len(), DeValue::String(text.into()));
    match (accept(bare.get_ref()), as_toml, parsed) {
        (Ok(value), ..) => Ok(value),
        (_, Some(Err(wrong)), Ok(value)) => Err((wrong, value)),
        // Somebody who writes a bracket or a quote means TOML.
        (Err(_), _, Err(error)) if text.starts_with(['[', '{', '"', '\'']) => Err((
            Wrong::hint(format!("invalid TOML: {}", error.message())),
            bare,
        )),
        (Err(wrong), ..) => Err((wrong, bare)),
    }
}

pub(super) fn read_secret(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let length = std::fs::metadata(file).map_err(cannot)?.len();
    if length > LARGEST_FILE {
        return Err(format!("is longer than {LARGEST_FILE} bytes"));
    }
    std::fs::read_to_string(file).map_err(cannot)
}
