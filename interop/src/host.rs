//! Where a process of a test runs: on loopback, or on a machine of its own, which is a network namespace behind a bridge.

use crate::process::run;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;

/// The bridge between the machines. The tests are at its address.
const BRIDGE: &str = "machines";
/// The address of the tests and their clients (RFC 5737, documentation).
const TESTS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);

/// A machine, and an address that it has.
#[derive(Clone, Debug)]
pub struct Host {
    address: IpAddr,
    namespace: Option<String>,
}

impl Host {
    /// This machine, at an address of its own.
    pub fn here(address: impl Into<IpAddr>) -> Self {
        Self {
            address: address.into(),
            namespace: None,
        }
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The address from which tests and their clients reach it.
    pub(crate) fn clients(&self) -> IpAddr {
        match self.namespace {
            Some(_) => TESTS.into(),
            None => self.address,
        }
    }

    /// A command that runs on it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let prefix = self.prefix();
        let [first, rest @ ..] = prefix.as_slice() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }

    /// The words before a command that is to run on it.
    pub fn prefix(&self) -> Vec<String> {
        let Some(namespace) = &self.namespace else {
            return Vec::new();
        };
        ["ip", "netns", "exec", namespace]
            .map(str::to_owned)
            .to_vec()
    }

    /// Connects to an address as a process on it does. So tests reach what listens on its loopback address only.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let Some(namespace) = &self.namespace else {
            return TcpStream::connect(address);
        };
        let namespace = File::open(format!("/run/netns/{namespace}"))?;
        // Only the thread changes its namespace. The connection stays in it.
        let connected = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpStream::connect(address)
        });
        connected.join().expect("connecting does not panic")
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::here(Ipv4Addr::LOCALHOST)
    }
}

/// Machines on one bridge, which end with this value. Asks for root, in a network namespace that has nothing else: `unshare --net`.
#[derive(Debug)]
pub struct Network {
    machines: Vec<String>,
}

impl Network {
    /// Makes a network without machines.
    #[expect(clippy::new_without_default, reason = "it changes the system")]
    pub fn new() -> Self {
        ip("link set lo up");
        ip(&format!("link add {BRIDGE} type bridge"));
        ip(&format!("address add {TESTS}/24 dev {BRIDGE}"));
        ip(&format!("link set {BRIDGE} up"));
        Self {
            machines: Vec::new(),
        }
    }

    /// Adds a machine.
    pub fn add(&mut self) -> Host {
        let [a, b, c, _] = TESTS.octets();
        let number = u8::try_from(self.machines.len() + 1).expect("few machines");
        let namespace = format!("tandem-{}-{number}", std::process::id());
        let address = Ipv4Addr::new(a, b, c, number);
        ip(&format!("netns add {namespace}"));
        self.machines.push(namespace.clone());
        ip(&format!(
            "link add machine{number} type veth peer name eth0 netns {namespace}"
        ));
        ip(&format!("link set machine{number} master {BRIDGE} up"));
        for order in [
            "link set lo up".to_owned(),
            format!("address add {address}/24 dev eth0"),
            "link set eth0 up".to_owned(),
        ] {
            ip(&format!("-n {namespace} {order}"));
        }
        Host {
            address: address.into(),
            namespace: Some(namespace),
        }
    }

    /// Takes the link of a machine down, or up again. While it is down, packets to the machine are lost without an ICMP error.
    pub fn connect(&self, machine: &Host, is_connected: bool) {
        let number = self
            .machines
            .iter()
            .position(|name| Some(name) == machine.namespace.as_ref());
        let number = number.expect("it is of this network") + 1;
        let state = if is_connected { "up" } else { "down" };
        ip(&format!("link set machine{number} {state}"));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            ip(&format!("netns delete {machine}"));
        }
        ip(&format!("link delete {BRIDGE}"));
    }
}

fn ip(order: &str) {
    let (code, output) = run(Command::new("ip").args(order.split(' ')));
    assert_eq!(
        code, 0,
        "ip {order}: {output} (machines need root and `unshare --net`)"
    );
}
