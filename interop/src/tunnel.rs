//! stunnel: adds TLS to programs that do not support it, as clients and as servers.

use crate::process::{Child, free_port, wait_until};
use crate::server::Server;
use sip_transport::Protocol;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A running stunnel.
#[derive(Debug)]
pub struct Tunnel {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Tunnel {
    /// Accepts TCP connections and passes each on to the server over TLS. It accepts any certificate.
    pub fn to(server: &Server) -> Self {
        Self::over(Protocol::Tls, server)
    }

    /// Like [`Tunnel::to`], to the server's port for TLS or for WSS.
    pub fn over(protocol: Protocol, server: &Server) -> Self {
        let to = server.address_of(protocol);
        // No resumption, so that each connection sees the present certificate.
        Self::start(to, "client = yes\nsessionResume = no\nverifyChain = no\n")
    }

    /// Accepts TLS connections with the certificate and key in this folder. Passes each on to a phone over TCP.
    pub fn before(phone: SocketAddr, folder: &Path) -> Self {
        let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
        let (chain, key) = (chain.display(), key.display());
        Self::start(phone, &format!("cert = {chain}\nkey = {key}\n"))
    }

    fn start(to: SocketAddr, settings: &str) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let text = format!(
            "foreground = yes\npid =\nsyslog = no\n\n[sip]\naccept = {address}\nconnect = {to}\nTIMEOUTclose = 0\n{settings}"
        );
        let file = folder.path().join("stunnel.conf");
        std::fs::write(&file, text).expect("configuration");
        let mut command = Command::new("stunnel");
        let child = Child::start(command.arg(&file), &folder.path().join("output"));
        let mut tunnel = Self {
            child,
            address,
            _folder: folder,
        };
        wait_until("stunnel listens", || {
            let ended = tunnel.child.ended();
            assert!(ended.is_none(), "stunnel:\n{}", tunnel.log());
            is_listening(address.port())
        });
        tunnel
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.child.output()
    }
}

/// Whether a process listens on a port of 127.0.0.1. This opens no connection that the process would notice.
fn is_listening(port: u16) -> bool {
    let entry = format!(":{port:04X} 00000000:0000 0A");
    std::fs::read_to_string("/proc/net/tcp").is_ok_and(|table| table.contains(&entry))
}
