//! stunnel: lends TLS to programs that do not speak it, as clients and as servers.

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
    /// Takes TCP connections, each of which becomes one over TLS to the server. Any certificate will do.
    pub fn to(server: &Server) -> Self {
        let to = server.address_of(Protocol::Tls);
        // Without resumption: each connection sees the certificate of its time.
        Self::start(to, "client = yes\nsessionResume = no\nverifyChain = no\n")
    }

    /// Takes TLS connections with the certificate and the key in this folder, each of which becomes one over TCP to a phone.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.child.output()
    }
}

/// Whether somebody listens on a port of 127.0.0.1, without a connection that he would see.
fn is_listening(port: u16) -> bool {
    let entry = format!(":{port:04X} 00000000:0000 0A");
    std::fs::read_to_string("/proc/net/tcp").is_ok_and(|table| table.contains(&entry))
}
