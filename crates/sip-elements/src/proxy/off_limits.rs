//! Where no request may lead, whatever its URI, Route or the records of a name say: networks that the operator has put off limits, and for
//! requests from elsewhere our own listeners, loopback and link-local addresses.

use crate::Settings;
use std::net::{IpAddr, SocketAddr};

/// Why an address may be a target although requests from elsewhere may not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warrant {
    /// None: a URI, a Route or a name led there.
    None,
    /// Its owner has spoken to us from there: a flow, a contact registered from its own address, a party of the dialog.
    Owner,
    /// The operator named it.
    Operator,
}

/// Whether a request from `source` may be sent to `destination`.
pub(super) fn admits(
    settings: &Settings,
    source: IpAddr,
    destination: SocketAddr,
    warrant: Warrant,
) -> bool {
    if warrant == Warrant::Operator {
        return true;
    }
    let ip = destination.ip().to_canonical();
    if settings.proxy.off_limits.contains(ip) {
        return false;
    }
    if warrant == Warrant::Owner || is_as_near(source, ip) {
        return true;
    }
    !is_near(ip)
        && !settings
            .domains
            .is_own_socket(SocketAddr::new(ip, destination.port()))
}

/// Whether an address means another host to each host: loopback, link-local, or none at all.
pub(super) fn is_near(ip: IpAddr) -> bool {
    is_loopback(ip) || is_link_local(ip)
}

/// Whether who sends from `source` reaches `ip` without us: both are on this host, or both on a link of it.
fn is_as_near(source: IpAddr, ip: IpAddr) -> bool {
    is_loopback(source) || (is_link_local(source) && is_link_local(ip))
}

fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::{Networks, Protocol};

    fn settings() -> Settings {
        let listener = |address: &str, advertised: &str| sip_transport::Listener {
            protocol: Protocol::Udp,
            address: address.parse().expect("an address"),
            prefix_length: 24,
            advertised: advertised.to_owned(),
            behind_balancer: false,
        };
        let listeners = vec![
            listener("10.0.0.1:5060", "192.0.2.1:5080"),
            listener("[2001:db8::1]:5060", "[2001:db8::1]:5060"),
            listener("127.0.0.1:5060", "127.0.0.1:5060"),
        ];
        let mut settings = Settings::new(&["example.org".to_owned()], listeners);
        let networks = ["198.51.100.0/24", "2001:db8:bad::/48"];
        let networks = networks.map(|network| network.parse().expect("a network"));
        settings.proxy.off_limits = Networks::new(networks);
        settings
    }

    #[test]
    fn requests_from_elsewhere_reach_what_is_open_and_nothing_else() {
        use Warrant::{None, Operator, Owner};
        let settings = settings();
        let (afar, loopback, link) = ("203.0.113.9", "127.0.0.1", "fe80::9");
        let rows = [
            (afar, "203.0.113.7:5060", None, true),
            (afar, "127.0.0.1:8080", None, false),
            (afar, "127.9.9.9:5060", None, false),
            (afar, "[::1]:5060", None, false),
            (afar, "[::ffff:127.0.0.1]:5060", None, false),
            (afar, "0.0.0.0:5060", None, false),
            (afar, "[::]:5060", None, false),
            (afar, "169.254.169.254:80", None, false),
            (afar, "[fe80::1]:5060", None, false),
            (afar, "10.0.0.1:5060", None, false),
            (afar, "[::ffff:10.0.0.1]:5060", None, false),
            (afar, "192.0.2.1:5080", None, false),
            (afar, "192.0.2.1:5060", None, true),
            (afar, "[2001:db8::1]:5060", None, false),
            (afar, "198.51.100.7:5060", None, false),
            (afar, "[::ffff:198.51.100.7]:5060", None, false),
            (afar, "[2001:db8:bad::1]:5060", None, false),
            (afar, "127.0.0.1:8080", Owner, true),
            (afar, "169.254.1.1:5060", Owner, true),
            (afar, "198.51.100.7:5060", Owner, false),
            (afar, "198.51.100.7:5060", Operator, true),
            (afar, "127.0.0.1:5080", Operator, true),
            (loopback, "127.0.0.1:5080", None, true),
            (loopback, "127.0.0.1:5060", None, true),
            (loopback, "198.51.100.7:5060", None, false),
            (link, "[fe80::1]:5060", None, true),
            (link, "[::1]:5060", None, false),
        ];
        for (source, destination, warrant, expected) in rows {
            let admitted = admits(
                &settings,
                source.parse().expect("an address"),
                destination.parse().expect("an address"),
                warrant,
            );
            assert_eq!(admitted, expected, "{source} to {destination}, {warrant:?}");
        }
    }
}
