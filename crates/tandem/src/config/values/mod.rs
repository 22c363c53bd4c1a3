//! The value types of keys: how each is parsed from TOML, written back and described in messages.

pub(super) mod controller_url;
pub(super) mod dialog_store;
pub(super) mod duration;
pub(super) mod host;
pub(super) mod kamailio;
pub(super) mod keyword;
pub(super) mod network;
pub(super) mod node_name;
pub(super) mod origin;
pub(super) mod redis_url;
pub(super) mod routing;

use std::net::SocketAddr;
use toml::de::DeValue;

/// A value type of a key.
pub trait Setting: Clone {
    /// The expected value, as a phrase: "a whole number".
    fn expected() -> String;

    /// The expected element of a list.
    fn expected_element() -> String {
        Self::expected()
    }

    /// Reads a value.
    fn read(value: &DeValue<'_>) -> Result<Self, Wrong>;

    /// The value in TOML; `None` if the key is not set.
    fn to_toml(&self) -> Option<String>;

    /// The value inside a sentence: without quotes.
    fn to_prose(&self) -> String {
        self.to_toml()
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned()
    }
}

/// Details about a rejected value, in addition to the expected phrase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// The element of a list that is wrong.
    pub element: Option<usize>,
    /// How to fix the value.
    pub hint: Option<String>,
    /// The value may contain a password, so the message must not repeat it.
    pub is_secret: bool,
}

impl Wrong {
    /// With a hint on how to fix the value.
    pub fn hint(hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..Self::default()
        }
    }
}

/// The text of a string value.
pub fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Wrong> {
    value.as_str().ok_or_else(|| match value {
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
            Wrong::hint("put it in quotes")
        }
        _ => Wrong::default(),
    })
}

/// The number of an integer value.
pub fn whole_number(value: &DeValue<'_>) -> Result<i64, Wrong> {
    match value {
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| Wrong::hint("the number is too large")),
        DeValue::String(text) if text.parse::<i64>().is_ok() => {
            Err(Wrong::hint("remove the quotes"))
        }
        _ => Err(Wrong::default()),
    }
}

/// A string in TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Setting for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            DeValue::Boolean(truth) => Ok(*truth),
            DeValue::String(text) if text == "true" || text == "false" => {
                Err(Wrong::hint("remove the quotes"))
            }
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

macro_rules! whole {
    ($($type:ty),+) => { $(
        impl Setting for $type {
            fn expected() -> String {
                "a whole number".to_owned()
            }

            fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
                <$type>::try_from(whole_number(value)?).map_err(|_| Wrong::default())
            }

            fn to_toml(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+ };
}
whole!(u8, u16, u32, usize);

impl Listed for u16 {
    fn plural() -> String {
        "whole numbers".to_owned()
    }
}

impl Setting for f64 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            DeValue::Float(number) => number.as_str().parse().map_err(|_| Wrong::default()),
            DeValue::Integer(_) => {
                let number = i32::try_from(whole_number(value)?);
                number
                    .map(Self::from)
                    .map_err(|_| Wrong::hint("the number is too large"))
            }
            DeValue::String(text) if text.parse::<Self>().is_ok() => {
                Err(Wrong::hint("remove the quotes"))
            }
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for String {
    fn expected() -> String {
        "a single-line string".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        if text.chars().any(char::is_control) {
            return Err(Wrong::hint("remove control characters"));
        }
        Ok(text.to_owned())
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Listed for String {
    fn plural() -> String {
        "single-line strings".to_owned()
    }
}

impl Setting for SocketAddr {
    fn expected() -> String {
        "an address and port, such as \"127.0.0.1:8060\" or \"[::1]:8060\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        text.parse().map_err(|_| address_hint(text))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Listed for SocketAddr {
    fn plural() -> String {
        "addresses with ports".to_owned()
    }
}

/// The probable error in an address.
fn address_hint(text: &str) -> Wrong {
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Wrong::hint(format!(
            "an IPv6 address needs brackets and a port: \"[{text}]:5060\""
        ));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<std::net::IpAddr>().is_ok() {
        return Wrong::hint("the port is missing");
    }
    match text.rsplit_once(':') {
        Some((host, port))
            if port.parse::<u16>().is_ok() && host.parse::<std::net::IpAddr>().is_err() =>
        {
            Wrong::hint("use an IP address, not a name")
        }
        Some((_, port)) if !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit()) => {
            Wrong::hint("the highest port is 65535")
        }
        _ => Wrong::default(),
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        T::read(value).map(Some)
    }

    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(T::to_toml)
    }
}

/// An element type of lists.
pub trait Listed: Setting {
    /// The plural phrase: "domain names".
    fn plural() -> String;
}

impl<T: Listed> Setting for Vec<T> {
    fn expected() -> String {
        format!("a list of {}", T::plural())
    }

    fn expected_element() -> String {
        T::expected()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let DeValue::Array(array) = value else {
            let alone = T::read(value).is_ok();
            return Err(if alone {
                Wrong::hint("put it in brackets")
            } else {
                Wrong::default()
            });
        };
        array
            .iter()
            .enumerate()
            .map(|(index, element)| {
                T::read(element.get_ref()).map_err(|wrong| Wrong {
                    element: Some(index),
                    ..wrong
                })
            })
            .collect()
    }

    fn to_toml(&self) -> Option<String> {
        let elements: Vec<String> = self.iter().filter_map(Setting::to_toml).collect();
        Some(format!("[{}]", elements.join(", ")))
    }
}
