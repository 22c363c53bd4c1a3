//! An edge in front of servers, with clients that we did not write.

use interop::{
    Edge, FLEET_SECRET, Kamailio, PATIENCE, Scenario, Server, ServerOptions, wait_until,
};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;

/// Only the domain, the users and their passwords are used of it.
fn domain() -> Server {
    Server::start(&ServerOptions::default())
}

#[test]
fn calls_go_through_an_edge_to_two_kamailios() {
    let domain = domain();
    // Both know the phone, because its REGISTER goes to both.
    let password = Server::password("alice");
    let nodes = [(); 2].map(|()| Kamailio::behind_edge(domain.domain(), &password));
    let addresses = [("k-1", nodes[0].address()), ("k-2", nodes[1].address())];
    let edge = Edge::start(&addresses);
    let bob = Scenario::new("answer").calls(10).start(&domain);
    let contact = format!("<sip:bob@{}>", bob.address);
    for node in &addresses {
        edge.set_nodes(&[*node]);
        wait_until("the edge has this node only", || {
            edge.state(node.0) == "alive"
                && edge.http("/v1/nodes").1.matches("instance").count() == 1
        });
        Scenario::new("register")
            .from("bob")
            .password(&password)
            .key("contact", &contact)
            .at(edge.address())
            .run(&domain);
    }
    edge.set_nodes(&addresses);
    wait_until("both nodes answer", || {
        addresses
            .iter()
            .all(|(node, _)| edge.state(node) == "alive")
    });
    let calls = Scenario::new("call")
        .at(edge.address())
        .calls(10)
        .with(&["-r", "10", "-d", "200"])
        .run(&domain);
    assert_eq!(calls.count("SuccessfulCall(C)"), 10);
    bob.finish();
    for (node, _) in &addresses {
        let seen = edge.node(node);
        assert!(seen["requests_by_hash"].as_u64() > Some(0), "{seen}");
    }
}

/// A node of the fleet of all edges, which trusts what comes from this machine.
fn node(folder: &TempDir) -> Server {
    let secret = folder.path().join("secret");
    std::fs::write(&secret, FLEET_SECRET).expect("the secret");
    Server::start(&ServerOptions::with(&format!(
        "[fleet]\nsecret_file = \"{}\"\n\n[proxy]\ntrusted_peers = [\"127.0.0.1/32\"]\n",
        secret.display()
    )))
}

#[test]
fn a_node_that_drains_says_so_to_the_edge_and_is_back_afterwards() {
    let folder = TempDir::new().expect("temporary folder");
    let node = node(&folder);
    let edge = Edge::start(&[("n-1", node.address())]);
    for (order, state) in [("drain", "unavailable"), ("undrain", "alive")] {
        assert_eq!(node.tandem(&["ctl", order]).0, 0);
        wait_until("the edge knows", || edge.state("n-1") == state);
    }
}

#[test]
fn an_answer_reaches_the_caller_through_another_edge_when_the_first_one_is_gone_for_good() {
    let folder = TempDir::new().expect("temporary folder");
    let node = node(&folder);
    let mut edges = [(); 2].map(|()| Edge::start(&[("n-1", node.address())]));
    wait_until("the node knows the edges", || {
        node.metric("tandem_edges", "") > 1.5
    });
    let caller = Telephone::new();
    let callee = Telephone::new();
    node.register("bob", callee.address(), "");
    let uri = node.uri("bob");
    let invite = format!(
        "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKcall;rport\r\nMax-Forwards: 70\r\nFrom: <{from}>;tag=a\r\n\
         To: <{uri}>\r\nCall-ID: gone-edge\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@{at}>\r\nContent-Length: 0\r\n\r\n",
        at = caller.address(),
        from = node.uri("alice"),
    );
    caller.send(edges[0].address(), &invite);
    let (server, received) = callee.wait_for("INVITE ");
    callee.send(server, &answer(&received, "180 Ringing", callee.address()));
    assert_eq!(caller.wait_for("SIP/2.0 180").0, edges[0].address());
    edges[0].kill();
    // A phone repeats its answer until the ACK.
    let answer = answer(&received, "200 OK", callee.address());
    let mut from = None;
    wait_until("the caller has the answer", || {
        callee.send(server, &answer);
        from = caller.receive("SIP/2.0 200", Duration::from_millis(500));
        from.is_some()
    });
    assert_eq!(from.map(|(from, _)| from), Some(edges[1].address()));
}

/// The response to a request, with the same header fields.
fn answer(request: &str, status: &str, contact: SocketAddr) -> String {
    let copied = ["Via", "Record-Route", "From", "Call-ID", "CSeq"];
    let is_copied = |line: &&str| {
        copied
            .iter()
            .any(|name| line.starts_with(&format!("{name}:")))
    };
    let lines: Vec<&str> = request.lines().filter(is_copied).collect();
    let to = request.lines().find(|line| line.starts_with("To:"));
    let to = to.expect("a To");
    format!(
        "SIP/2.0 {status}\r\n{}\r\n{to};tag=b\r\nContact: <sip:bob@{contact}>\r\nContent-Length: 0\r\n\r\n",
        lines.join("\r\n")
    )
}

/// A socket that a test speaks SIP over.
struct Telephone(UdpSocket);

impl Telephone {
    fn new() -> Self {
        Self(UdpSocket::bind("127.0.0.1:0").expect("a socket"))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("bound")
    }

    fn send(&self, to: SocketAddr, message: &str) {
        self.0.send_to(message.as_bytes(), to).expect("sent");
    }

    /// The next message with this beginning, and its sender; others are left aside.
    fn receive(&self, beginning: &str, at_most: Duration) -> Option<(SocketAddr, String)> {
        self.0.set_read_timeout(Some(at_most)).expect("a timeout");
        let mut buffer = [0; 4096];
        loop {
            // An error from an edge that is gone is one of the loop's ends, too.
            let (length, from) = self.0.recv_from(&mut buffer).ok()?;
            let text = String::from_utf8_lossy(buffer.get(..length)?).into_owned();
            if text.starts_with(beginning) {
                return Some((from, text));
            }
        }
    }

    fn wait_for(&self, beginning: &str) -> (SocketAddr, String) {
        let received = self.receive(beginning, PATIENCE);
        received.unwrap_or_else(|| panic!("no {beginning}"))
    }
}
