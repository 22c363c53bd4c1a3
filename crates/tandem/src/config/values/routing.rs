//! Value types of the routing sections: members of groups, header fields, response codes, dialled digits, and names of tables and columns.
use super::{Listed, Setting, Wrong, quoted, text};
use crate::config::mistake::nearest;
use sip_routing::gateway::{BadStatusSet, MemberDescription, StatusSet};
use sip_routing::rule::{FieldDescription, HeaderDescription};
use toml::de::{DeTable, DeValue};

/// A member of a gateway group: a name, or a table with `gateway`, `weight` and `priority`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember(pub MemberDescription);

impl GroupMember {
    const KEYS: [&'static str; 3] = ["gateway", "weight", "priority"];
    const WEIGHT: u16 = 1;

    /// A member with weight 1 and priority 0.
    pub fn named(gateway: &str) -> Self {
        Self(MemberDescription {
            gateway: gateway.into(),
            weight: Self::WEIGHT,
            priority: 0,
        })
    }

    fn of_table(table: &DeTable<'_>) -> Result<Self, Wrong> {
        for (key, _) in table {
            let key: &str = key.get_ref();
            if !Self::KEYS.contains(&key) {
                return Err(match nearest(key, Self::KEYS) {
                    Some(near) => {
                        Wrong::hint(format!("unknown key `{key}`: did you mean `{near}`?"))
                    }
                    None => Wrong::hint(format!("unknown key `{key}`")),
                });
            }
        }
        let gateway = table.get("gateway").map(|gateway| text(gateway.get_ref()));
        let gateway = gateway.ok_or_else(|| Wrong::hint("`gateway` is missing"))??;
        let number = |key: &str, default: u16| match table.get(key) {
            None => Ok(default),
            Some(number) => u16::read(number.get_ref()).map_err(|_| {
                Wrong::hint(format!("`{key}` must be a whole number from 0 to 65535"))
            }),
        };
        Ok(Self(MemberDescription {
            gateway: gateway.into(),
            weight: number("weight", Self::WEIGHT)?,
            priority: number("priority", 0)?,
        }))
    }
}

impl Setting for GroupMember {
    fn expected() -> String {
        "the name of a gateway, or a table such as { gateway = \"berlin-1\", weight = 2, priority = 0 }".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            DeValue::Table(table) => Self::of_table(table),
            _ => Ok(Self::named(text(value)?)),
        }
    }

    fn to_toml(&self) -> Option<String> {
        let MemberDescription {
            gateway,
            weight,
            priority,
        } = &self.0;
        let name = quoted(gateway);
        Some(if *self == Self::named(gateway) {
            name
        } else {
            format!("{{ gateway = {name}, weight = {weight}, priority = {priority} }}")
        })
    }
}

impl Listed for GroupMember {
    fn plural() -> String {
        "gateways".to_owned()
    }
}

/// A header field to write: `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField(pub FieldDescription);

impl Setting for HeaderField {
    fn expected() -> String {
        "a header field, such as \"P-Charge-Info: <sip:+4930123@example.org>\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let (name, value) = text(value)?
            .split_once(':')
            .ok_or_else(|| Wrong::hint("a colon after the name is missing"))?;
        Ok(Self(FieldDescription {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
        }))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&format!("{}: {}", self.0.name, self.0.value)))
    }
}

impl Listed for HeaderField {
    fn plural() -> String {
        "header fields".to_owned()
    }
}

/// A condition on a header field: `Name: pattern`, or `Name` if it must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch(pub HeaderDescription);

impl Setting for HeaderMatch {
    fn expected() -> String {
        "the name of a header field, or the name and a pattern, such as \"X-Customer: gold-*\""
            .to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let given = text(value)?;
        let (name, pattern) = match given.split_once(':') {
            Some((name, pattern)) => (name, Some(pattern.trim().to_owned())),
            None => (given, None),
        };
        Ok(Self(HeaderDescription {
            name: name.trim().to_owned(),
            value: pattern,
        }))
    }

    fn to_toml(&self) -> Option<String> {
        let HeaderDescription { name, value } = &self.0;
        Some(quoted(&match value {
            Some(pattern) => format!("{name}: {pattern}"),
            None => name.clone(),
        }))
    }
}

impl Listed for HeaderMatch {
    fn plural() -> String {
        "conditions on header fields".to_owned()
    }
}

impl Setting for StatusSet {
    fn expected() -> String {
        "response codes and ranges, such as \"408, 500-599\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let codes = text(value)?.parse();
        codes.map_err(|BadStatusSet { item }| {
            Wrong::hint(format!("\"{item}\" is not a final response code or range"))
        })
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

/// The name of a table or a view of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName(pub String);

impl Setting for TableName {
    fn expected() -> String {
        "the name of a table or view, such as \"prefix_route\" or \"routing.prefix_route\""
            .to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let name = text(value)?;
        let is_name = name.parse::<tandem_store::TableName>().is_ok();
        let is_one = is_name.then(|| Self(name.to_owned()));
        is_one.ok_or_else(Wrong::default)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// The name of a column of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName(pub String);

impl Setting for ColumnName {
    fn expected() -> String {
        "the name of a column, such as \"prefix\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let name = text(value)?;
        let is_name = name.parse::<tandem_store::ColumnName>().is_ok();
        let is_one = is_name.then(|| Self(name.to_owned()));
        is_one.ok_or_else(Wrong::default)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// A country code (ITU-T E.164).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountryCode(pub String);

impl Setting for CountryCode {
    fn expected() -> String {
        "a country code of one to three digits, such as \"49\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let code = text(value)?;
        let is_code = is_dialled(code, 3) && !code.is_empty() && !code.starts_with('0');
        let is_one = is_code.then(|| Self(code.to_owned()));
        is_one.ok_or_else(|| match code.strip_prefix('+') {
            Some(code) => Wrong::hint(format!("write \"{code}\"")),
            None => Wrong::default(),
        })
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// Digits that callers dial before a number. May be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialledDigits(pub String);

impl Setting for DialledDigits {
    fn expected() -> String {
        "up to eight digits, such as \"00\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let digits = text(value)?;
        let are_digits = is_dialled(digits, 8).then(|| Self(digits.to_owned()));
        are_digits.ok_or_else(Wrong::default)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

fn is_dialled(text: &str, most: usize) -> bool {
    text.len() <= most && text.bytes().all(|octet| octet.is_ascii_digit())
}
