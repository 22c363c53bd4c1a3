//! Destinations that no request may go to, whatever its URI, Route or DNS records say: the networks that the operator
//! has put off limits. For requests from outside, our own listeners and loopback and link-local addresses are forbidden
//! too.

use crate::Settings;
use std::net::{IpAddr, SocketAddr};

/// Why an address may be a target although requests from outside must not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetSource {
    /// No reason: a URI, a Route or a name led there.
    None,
    /// The owner of the address has sent to us from there: a flow, a contact registered from its own address, or a
    /// party of the dialog.
    Owner,
    /// The operator named the address.
    Operator,
}

/// Whether a request may be sent to `destination`. `source` is the address of who has chosen the destination, `None` if it is not known.
pub(crate) fn admits(
    settings: &Settings,
    source: Option<IpAddr>,
    destination: SocketAddr,
    warrant: TargetSource,
) -> bool {
    if warrant == TargetSource::Operator {
        return true;
    }
    let ip = destination.ip().to_canonical();
    if settings.proxy.off_limits.contains(ip) {
        return false;
    }
    if warrant == TargetSource::Owner || source.is_some_and(|source| is_as_near(source, ip)) {
        return true;
    }
    !is_near(ip)
        && !settings
            .domains
            .is_own_socket(SocketAddr::new(ip, destination.port()))
}

/// Whether an address refers to a different host on every host: loopback, link-local or unspecified.
pub(crate) fn is_near(ip: IpAddr) -> bool {
    is_loopback(ip) || is_link_local(ip)
}

/// Whether the sender at `source` reaches `ip` without us: both are on this host, or both on a link of it.
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
        use TargetSource::{None, Operator, Owner};
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
                Some(source.parse().expect("an address")),
                destination.parse().expect("an address"),
                warrant,
            );
            assert_eq!(admitted, expected, "{source} to {destination}, {warrant:?}");
        }
        for near in ["127.0.0.1:5080", "[fe80::1]:5060", "10.0.0.1:5060"] {
            let near = near.parse().expect("an address");
            assert!(!admits(&settings, Option::None, near, None), "{near}");
        }
    }
}
