//! An edge in front of servers, with clients that we did not write.

use interop::{Edge, Kamailio, Scenario, Server, ServerOptions, wait_until};

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
