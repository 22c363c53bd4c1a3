//! The value type for the name of a node.
use super::{Setting, Wrong, quoted, text};
use toml::de::DeValue;

/// The name of this server among those that share its database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeName(pub tandem_store::NodeName);

impl Setting for NodeName {
    fn expected() -> String {
        "a name of 1 to 63 letters, digits, \"-\", \".\" and \"_\", such as \"sip-1\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let name = text(value)?.parse();
        name.map(Self).map_err(|_| Wrong::default())
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self.0.as_str()))
    }
}
