//! Networks in CIDR notation.
use super::value::{Listed, Setting, Wrong, quoted, text};
use sip_transport::{IpNet, Networks};
use std::net::IpAddr;
use toml::de::DeValue;

/// A network; an address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl Network {
    /// The set of these networks.
    pub fn set(networks: &[Self]) -> Networks {
        networks.iter().map(|network| network.0).collect()
    }
}

impl Setting for Network {
    fn expected() -> String {
        "a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        match text.parse::<IpNet>() {
            Ok(network) if network == network.trunc() => Ok(Self(network)),
            // One address of the network, or a wrong length: a guess might trust more than is meant.
            Ok(network) => Err(Wrong::hint(format!(
                "the network of {} with this length is \"{}\"",
                network.addr(),
                network.trunc()
            ))),
            Err(_) => Err(hint(text)),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0.to_string()))
    }
}

impl Listed for Network {
    fn plural() -> String {
        "networks".to_owned()
    }
}

/// What is probably wrong with a network.
fn hint(text: &str) -> Wrong {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    if address.starts_with('[') {
        return Wrong::hint("without brackets");
    }
    match address.parse::<IpAddr>() {
        Ok(address) if !length.is_empty() => {
            let most = if address.is_ipv4() { 32 } else { 128 };
            Wrong::hint(format!("the length is a number from 0 to {most}"))
        }
        Ok(_) => Wrong::hint("the length after / is missing"),
        Err(_) if address.parse::<std::net::SocketAddr>().is_ok() => Wrong::hint("without a port"),
        Err(_) => Wrong::default(),
    }
}
