//! The parameters of methods, and the check of what a call passes for them.
use super::failure::{Failure, code};
use super::nearest;
use serde_json::{Map, Value};

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A string.
    Text,
    /// A boolean.
    Truth,
    /// A whole number in this inclusive range.
    Number(u64, u64),
    /// A list of strings.
    Texts,
}

impl Param {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Truth => value.is_boolean(),
            Self::Number(low, high) => value
                .as_u64()
                .is_some_and(|number| (low..=high).contains(&number)),
            Self::Texts => value
                .as_array()
                .is_some_and(|texts| texts.iter().all(Value::is_string)),
        }
    }

    /// The accepted values, as a phrase.
    pub fn phrase(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Number(low, high) => format!("a whole number from {low} to {high}"),
            Self::Texts => "a list of strings".to_owned(),
        }
    }
}

/// The parameters of a method in order: name, type, whether it is required.
pub type Params = &'static [(&'static str, Param, bool)];

/// The checked arguments of a call.
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Accepts arguments by name or by position; null means omitted.
    ///
    /// # Errors
    /// [`code::INVALID_PARAMS`]: the first argument that is wrong, or a required one that is missing.
    pub fn check(method: &str, params: Params, given: Value) -> Result<Self, Failure> {
        let invalid = |problem: String| Failure::new(code::INVALID_PARAMS, problem);
        let mut given: Map<String, Value> = match given {
            Value::Object(named) => named,
            Value::Array(values) if values.len() <= params.len() => {
                let names = params.iter().map(|(name, ..)| (*name).to_owned());
                names.zip(values).collect()
            }
            _ => {
                let most = params.len();
                return Err(invalid(format!("{method} takes at most {most} parameters")));
            }
        };
        given.retain(|_, value| !value.is_null());
        for (name, value) in &given {
            let Some((_, param, _)) = params.iter().find(|(known, ..)| known == name) else {
                let hint = hint(name, params);
                let problem = format!("{method} has no parameter `{name}`: {hint}");
                return Err(invalid(problem));
            };
            if !param.admits(value) {
                let allowed = param.phrase();
                return Err(invalid(format!("`{name}` = {value}: must be {allowed}")));
            }
        }
        let mut required = params.iter().filter(|(_, _, required)| *required);
        match required.find(|(name, ..)| !given.contains_key(*name)) {
            Some((name, ..)) => Err(invalid(format!("{method} requires the parameter `{name}`"))),
            None => Ok(Self(given)),
        }
    }

    /// All arguments by name.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// The string of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// The number of this name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// The boolean of this name.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }
}

/// What to pass instead of a parameter that does not exist.
fn hint(unknown: &str, params: Params) -> String {
    let known = || params.iter().map(|(name, ..)| *name);
    match nearest(unknown, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if params.is_empty() => "it takes no parameters".to_owned(),
        None => {
            let known: Vec<String> = known().map(|name| format!("`{name}`")).collect();
            format!("expected one of {}", known.join(", "))
        }
    }
}
