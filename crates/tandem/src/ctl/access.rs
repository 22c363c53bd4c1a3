//! Where the admin interface of a server is, and how the command line named it.
use crate::configuration_file::ConfigurationFile;
use anyhow::{Context as _, bail};
use hyper::Uri;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tandem_http::Token;

/// The address of an admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// HTTP over TCP. The path precedes `/rpc`.
    Http(Uri),
    /// HTTP over a Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => formatter.write_str(url.to_string().trim_end_matches('/')),
            Self::Socket(path) => path.display().fmt(formatter),
        }
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text.starts_with(['/', '.']) {
            return Ok(Self::Socket(text.into()));
        }
        let url = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let url: Uri = url.parse().context(
            "use HOST:PORT, an http:// URL, or the path of a Unix socket with at least one /",
        )?;
        if url.scheme_str() != Some("http") {
            bail!("must begin with http://, because the admin interface speaks no TLS");
        }
        if url.port().is_none() {
            bail!("the port is missing: `admin.listen` is port 8060 by default");
        }
        Ok(Self::Http(url))
    }
}

/// Who chose the address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ChosenBy {
    /// The option `--admin`.
    Option,
    /// The option `--controller` of `tandem fleet`.
    Controller,
    /// A key of the configuration, and its file; `None`: the defaults.
    Configuration(&'static str, Option<PathBuf>),
}

/// How to reach the admin interface of a server.
#[derive(Clone)]
pub struct Access {
    /// Where it listens.
    pub address: Address,
    /// What callers over TCP must send, if the server requires it.
    pub token: Option<String>,
    chosen_by: ChosenBy,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(formatter) // Without the token.
    }
}

impl Access {
    /// Access to an address that the caller chose. The token is for TCP only.
    pub fn to(address: Address, token: Option<String>) -> Self {
        Self {
            address,
            token,
            chosen_by: ChosenBy::Option,
        }
    }

    /// Access to the API of a controller.
    pub(crate) fn to_controller(address: Address, token: String) -> Self {
        Self {
            address,
            token: Some(token),
            chosen_by: ChosenBy::Controller,
        }
    }

    /// Access as the options say, or the configuration if they say nothing. The configured token goes only to the configured address.
    ///
    /// # Errors
    /// The configuration or the token file cannot be read.
    pub(super) fn find(
        given: Option<&Address>,
        token_file: Option<&Path>,
        file: &ConfigurationFile,
    ) -> anyhow::Result<Self> {
        let token = token_file.map(Token::read_text).transpose()?;
        if let Some(address) = given {
            return Ok(Self::to(address.clone(), token));
        }
        let admin = file.load_for_admin()?.admin;
        let by = |key| ChosenBy::Configuration(key, file.path().map(Path::to_owned));
        if let Some(path) = admin.socket {
            return Ok(Self {
                address: Address::Socket(path.0),
                token: None,
                chosen_by: by("admin.socket"),
            });
        }
        let configured = admin.token_file.filter(|_| token.is_none());
        let configured = configured.map(|file| Token::read_text(&file.0));
        Ok(Self {
            address: reachable(admin.listen).to_string().parse()?,
            token: token.or(configured.transpose()?),
            chosen_by: by("admin.listen"),
        })
    }

    /// What to do if no server answers at the address.
    pub(super) fn advice(&self) -> String {
        match &self.chosen_by {
            ChosenBy::Option => {
                "The address is that of --admin. Check that a server runs there: `admin.listen` or `admin.socket` of its configuration"
                    .to_owned()
            }
            ChosenBy::Controller => {
                "The address is that of --controller. Check that `tandem control` runs there: `api.listen` of its configuration"
                    .to_owned()
            }
            ChosenBy::Configuration(key, Some(file)) => {
                let file = file.display();
                format!(
                    "The address is `{key}` of {file}. Start the server with `tandem serve --config {file}`, or name another one with --admin"
                )
            }
            ChosenBy::Configuration(key, None) => format!(
                "The address is the default of `{key}`. Name the server's configuration file with --config, or its address with --admin"
            ),
        }
    }
}

/// The address at which a client on this machine reaches a server that listens on `listen`.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_reached_over_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8060", "127.0.0.1:8060"),
            ("[::]:8060", "[::1]:8060"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(
                reachable(listen.parse().expect("an address")).to_string(),
                reached
            );
        }
    }

    #[test]
    fn an_address_is_a_host_with_a_port_a_url_or_a_path() {
        for (text, address) in [
            ("127.0.0.1:8060", "http://127.0.0.1:8060"),
            ("[::1]:8060", "http://[::1]:8060"),
            ("sip1.example.org:8060", "http://sip1.example.org:8060"),
            ("http://127.0.0.1:8060/", "http://127.0.0.1:8060"),
            ("http://gate:80/sip1", "http://gate:80/sip1"),
            ("/run/tandem/admin.sock", "/run/tandem/admin.sock"),
            ("./admin.sock", "./admin.sock"),
        ] {
            let parsed: Address = text.parse().expect(text);
            assert_eq!(parsed.to_string(), address);
        }
        for (text, problem) in [
            ("https://127.0.0.1:8060", "speaks no TLS"),
            ("127.0.0.1", "the port is missing"),
            ("no address", "use HOST:PORT"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.to_string().contains(problem), "{text}: {error}");
        }
    }
}
