//! Which pages may open a WebSocket, by the `Origin` that browsers send (RFC 6455 section 10.2, RFC 6454).
//!
//! By default, pages of the server's own host may. If that host is a name and the connection has no TLS, the name proves nothing:
//! the owner of any domain can point it at this server's address while one of its pages is open (DNS rebinding). So over plain
//! WebSocket, a page of the same host is accepted only if the host is an address or `localhost`. Over TLS the browser has checked
//! the certificate.

use std::net::IpAddr;

/// The origins whose pages may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Whether all pages may.
    pub all: bool,
    /// Origins as browsers write them, such as `https://phone.example.org`.
    pub listed: Vec<String>,
    /// Hosts whose pages may connect with any scheme and port: the server's domains.
    pub hosts: Vec<String>,
}

impl Origins {
    /// Whether a page of `origin` may connect if it asks for `host` (the `Host` header field). `is_secure`: over TLS.
    pub fn admit(&self, origin: &[u8], host: &[u8], is_secure: bool) -> bool {
        let Ok(origin) = std::str::from_utf8(origin) else {
            return self.all;
        };
        let is_listed = |listed: &String| listed.eq_ignore_ascii_case(origin);
        self.all
            || self.listed.iter().any(is_listed)
            || host_of_origin(origin).is_some_and(|page| {
                let is_ours = |own: &String| own.eq_ignore_ascii_case(page);
                self.hosts.iter().any(is_ours) || is_same_host(page, host, is_secure)
            })
    }
}

fn is_same_host(page: &str, host: &[u8], is_secure: bool) -> bool {
    let host = std::str::from_utf8(host).map_or("", without_port);
    let cannot_be_rebound = || {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
    };
    page.eq_ignore_ascii_case(host) && (is_secure || cannot_be_rebound())
}

/// The host of an origin; `None` if it has none, such as `null`.
fn host_of_origin(origin: &str) -> Option<&str> {
    let (_, authority) = origin.split_once("://")?;
    let host = without_port(authority);
    (!host.is_empty()).then_some(host)
}

/// Removes the port. An IPv6 address keeps its brackets.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins() -> Origins {
        Origins {
            all: false,
            listed: vec!["https://phone.example.net".to_owned()],
            hosts: vec!["example.org".to_owned()],
        }
    }

    #[test]
    fn pages_of_the_domains_the_same_host_and_the_list_may_connect() {
        for (origin, host, is_secure, may) in [
            ("https://example.org", "192.0.2.1", false, true),
            ("http://EXAMPLE.org:8080", "192.0.2.1", false, true),
            ("https://phone.example.net", "192.0.2.1", false, true),
            ("https://Phone.example.NET", "192.0.2.1", false, true),
            ("https://phone.example.net:444", "192.0.2.1", false, false),
            (
                "https://sip.example.com",
                "sip.example.com:8089",
                true,
                true,
            ),
            // DNS rebinding: the attacker's name, which resolves to this server.
            (
                "http://evil.example:8088",
                "evil.example:8088",
                false,
                false,
            ),
            ("http://192.0.2.1:3000", "192.0.2.1:8088", false, true),
            (
                "http://[2001:db8::1]:3000",
                "[2001:db8::1]:8088",
                false,
                true,
            ),
            ("http://[2001:db8::1]", "[2001:db8::1]", false, true),
            ("http://localhost:3000", "localhost:8088", false, true),
            ("http://192.0.2.2", "192.0.2.1:8088", false, false),
            ("https://evil.example", "example.org", true, false),
            ("https://notexample.org", "example.org", true, false),
            ("null", "example.org", true, false),
            ("", "", true, false),
            ("http://", "", true, false),
        ] {
            let found = origins().admit(origin.as_bytes(), host.as_bytes(), is_secure);
            assert_eq!(found, may, "{origin} asks for {host}, TLS: {is_secure}");
        }
    }

    #[test]
    fn every_page_may_where_the_operator_says_so() {
        let all = Origins {
            all: true,
            ..Origins::default()
        };
        assert!(all.admit(b"https://evil.example", b"example.org", false));
        assert!(all.admit(b"null", b"example.org", false));
        assert!(all.admit(b"\xff", b"example.org", false));
        assert!(!origins().admit(b"https://evil.example", b"example.org", false));
    }
}
