//! The address of the server, and the local address towards it.

use anyhow::anyhow;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// An address, or the first address of a name, with port 5060 as the default.
pub(crate) fn server_address(text: &str) -> Result<SocketAddr, String> {
    const SIP: u16 = 5060;
    if let Ok(address) = text.parse() {
        return Ok(SocketAddr::new(address, SIP));
    }
    let has_port = text.rsplit_once(':').is_some();
    let found = if has_port {
        text.to_socket_addrs()
    } else {
        (text, SIP).to_socket_addrs()
    };
    let mut found = found
        .map_err(|error| format!("{error}; use an address or a name, such as 192.0.2.1:5060"))?;
    found
        .next()
        .ok_or_else(|| format!("the name `{text}` has no address"))
}

/// The local address that the server sees.
pub(crate) fn own_address(server: SocketAddr) -> anyhow::Result<IpAddr> {
    let any: SocketAddr = if server.is_ipv4() {
        ([0; 4], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let probe = UdpSocket::bind(any)?;
    let connected = probe.connect(server);
    connected.map_err(|error| anyhow!("no route to {server}: {error}"))?;
    Ok(probe.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_a_name_with_a_port_or_without() {
        let address = |text: &str| server_address(text).map(|address| address.to_string());
        assert_eq!(address("192.0.2.1:5070").as_deref(), Ok("192.0.2.1:5070"));
        assert_eq!(address("192.0.2.1").as_deref(), Ok("192.0.2.1:5060"));
        assert_eq!(
            address("[2001:db8::1]:5070").as_deref(),
            Ok("[2001:db8::1]:5070")
        );
        assert_eq!(address("2001:db8::1").as_deref(), Ok("[2001:db8::1]:5060"));
        assert!(address("localhost").is_ok_and(|found| found.ends_with(":5060")));
        assert!(address("localhost:5070").is_ok_and(|found| found.ends_with(":5070")));
        for wrong in ["", "192.0.2.1:", "192.0.2.1:sip", "192.0.2.1:70000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
