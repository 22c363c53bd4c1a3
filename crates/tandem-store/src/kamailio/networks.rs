//! What the rows of a group of `address` trust: networks, for Kamailio's module `permissions`.

use super::reader::AddressRow;
use std::net::IpAddr;

/// An address and the length of its network's prefix.
pub type TrustedNetwork = (IpAddr, u8);

/// The networks of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedNetworks {
    /// In the order of the table.
    pub networks: Vec<TrustedNetwork>,
    /// Rows that are not used, each with the reason.
    pub skipped: Vec<String>,
}

impl TrustedNetworks {
    pub(super) fn add(&mut self, row: &AddressRow<'_>) {
        match network(row) {
            Ok(network) => self.networks.push(network),
            Err(reason) => {
                let address = row.address.escape_debug();
                self.skipped
                    .push(format!("{address}/{} {reason}", row.mask));
            }
        }
    }
}

/// Never more than what the row trusts.
fn network(row: &AddressRow<'_>) -> Result<TrustedNetwork, &'static str> {
    let text = row.address.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address: IpAddr = bare
        .unwrap_or(text)
        .parse()
        .map_err(|_| "is a name, and only addresses can be trusted")?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if row.port != 0 {
        return Err("is limited to a port, and Tandem would trust all ports");
    }
    match u8::try_from(row.mask) {
        Ok(0) => Err("would trust every address"),
        Ok(length) if length <= longest => Ok((address, length)),
        _ => Err("has a mask that is too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_cannot_be_followed_exactly_is_skipped_with_its_reason() {
        let mut found = TrustedNetworks::default();
        for (address, mask, port) in [
            ("192.0.2.7", 32, 0),
            ("2001:db8::", 32, 0),
            ("[2001:db8::1]", 128, 0),
            ("198.51.100.0", 24, 5060),
            ("trunk.example.net", 32, 0),
            ("0.0.0.0", 0, 0),
            ("192.0.2.7", 33, 0),
            ("192.0.2.7", -1, 0),
        ] {
            found.add(&AddressRow {
                address,
                mask,
                port,
            });
        }
        let shown: Vec<String> = found
            .networks
            .iter()
            .map(|(ip, length)| format!("{ip}/{length}"))
            .collect();
        assert_eq!(shown, ["192.0.2.7/32", "2001:db8::/32", "2001:db8::1/128"]);
        assert_eq!(found.skipped.len(), 5, "{:?}", found.skipped);
    }
}
