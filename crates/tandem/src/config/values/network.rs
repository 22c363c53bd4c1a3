//! Networks in CIDR notation.
use super::{Listed, Setting, Wrong, quoted, text};
use sip_transport::{IpNet, Networks};
use std::net::IpAddr;
use toml::de::DeValue;

/// A network; a single address is a network of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl Network {
    /// Combines networks into a set.
    pub fn set(networks: &[Self]) -> Networks {
        networks.iter().map(|network| network.0).collect()
    }
}

impl Setting for Network {
    fn expected() -> String {
        "a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        Self::parse(text(value)?)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0.to_string()))
    }
}

impl Network {
    /// Reads a network or an address.
    pub(in crate::config) fn parse(text: &str) -> Result<Self, Wrong> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        match text.parse::<IpNet>() {
            Ok(network) if network == network.trunc() => Ok(Self(network)),
            // Either the address or the length is wrong: a guess might trust more than intended.
            Ok(network) => Err(Wrong::hint(format!(
                "the network that contains {} is \"{}\"",
                network.addr(),
                network.trunc()
            ))),
            Err(_) => Err(hint(text)),
        }
    }
}

impl Listed for Network {
    fn plural() -> String {
        "networks".to_owned()
    }
}

/// The probable error in a network.
fn hint(text: &str) -> Wrong {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    if address.starts_with('[') {
        return Wrong::hint("remove the brackets");
    }
    match address.parse::<IpAddr>() {
        Ok(address) if !length.is_empty() => {
            let most = if address.is_ipv4() { 32 } else { 128 };
            Wrong::hint(format!("the prefix length must be from 0 to {most}"))
        }
        Ok(_) => Wrong::hint("the prefix length after / is missing"),
        Err(_) if address.parse::<std::net::SocketAddr>().is_ok() => Wrong::hint("remove the port"),
        Err(_) => Wrong::default(),
    }
}
