//! dnsmasq: a name server with the records of a test.

use crate::process::{Child, free_port, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The zone of the tests. Names outside it do not exist.
pub const ZONE: &str = "carrier.test";

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
}

/// The records of a [`NameServer`], as dnsmasq options.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<String>);

impl Records {
    /// No records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an A or AAAA record.
    #[must_use]
    pub fn host(self, name: &str, address: &str) -> Self {
        self.with(format!("--host-record={name},{address}"))
    }

    /// Adds an SRV record and the address of its host, which is 127.0.0.1.
    #[must_use]
    pub fn server(self, service: &str, host: &str, port: u16, priority: u16, weight: u16) -> Self {
        let record = format!("--srv-host={service},{host},{port},{priority},{weight}");
        self.with(record).host(host, "127.0.0.1")
    }

    /// Adds a NAPTR record of the zone.
    #[must_use]
    pub fn naptr(self, order: u16, service: &str, replacement: &str) -> Self {
        self.with(format!(
            "--naptr-record={ZONE},{order},10,s,{service},,{replacement}"
        ))
    }

    fn with(mut self, record: String) -> Self {
        self.0.push(record);
        self
    }
}

impl NameServer {
    /// Starts the server with records that live `ttl` seconds. Waits until it answers.
    pub fn start(records: &Records, ttl: u32) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, free_port()).into(), records, ttl)
    }

    /// Like [`NameServer::start`], at a given address.
    pub fn start_at(address: SocketAddr, records: &Records, ttl: u32) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file",
        ]);
        command.args(["--no-resolv", "--no-hosts", "--bind-interfaces", "--user="]);
        command.args(["--log-queries", "--log-facility=-"]);
        command.arg(format!("--listen-address={}", address.ip()));
        command.arg(format!("--port={}", address.port()));
        command.arg(format!("--local=/{ZONE}/"));
        command.arg(format!("--local-ttl={ttl}"));
        command.args(&records.0);
        let child = Child::start(&mut command, &folder.path().join("output"));
        let mut server = Self {
            child,
            folder,
            address,
        };
        wait_until("dnsmasq answers", || {
            let ended = server.child.ended();
            assert!(ended.is_none(), "dnsmasq:\n{}", server.child.output());
            answers(address)
        });
        server
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The section of Tandem's configuration that selects this name server.
    pub fn section(&self) -> String {
        let address = self.address;
        format!("[dns]\nservers = [\"{address}\"]\ntimeout = \"300ms\"\n")
    }

    /// How often a name was asked for, with this type of record.
    pub fn asked(&self, kind: &str, name: &str) -> usize {
        let question = format!("query[{kind}] {name} ");
        let log = self.child.output();
        log.lines().filter(|line| line.contains(&question)).count()
    }

    /// Stops the server.
    pub fn stop(mut self) {
        self.child.signal("KILL");
        self.child.wait();
        drop(self.folder);
    }
}

/// Whether a name server answers an empty query, even with an error.
fn answers(address: SocketAddr) -> bool {
    let question = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let wait = Some(Duration::from_millis(50));
    socket.set_read_timeout(wait).expect("a timeout");
    // If nothing listens there yet, sending fails too.
    let sent = socket
        .connect(address)
        .and_then(|()| socket.send(&question));
    sent.is_ok() && socket.recv(&mut [0; 512]).is_ok()
}
