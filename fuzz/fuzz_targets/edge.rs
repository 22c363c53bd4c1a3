//! Any message at an edge, from a client and from a node. A client's message never leaves to anything but a node or the client itself, and
//! what the edge forwards is a message.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::{KeyHasher, Message};
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Node as _, Output, Protocol, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_balancer::{
    Edge, EdgeMetrics, EdgeOptions, Member, Members, Question, Settings, Shared, Unanswered,
};

fuzz_target!(|bytes: &[u8]| {
    let node: SocketAddr = ([10, 0, 0, 1], 5060).into();
    let client: SocketAddr = ([192, 0, 2, 9], 40_000).into();
    let mut edge = edge(node);
    let over_udp = |remote| Flow::to(ListenerId(0), remote);
    let over_tcp = Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(0, 5),
        remote: client,
    };
    for (flow, is_client) in [
        (over_udp(client), true),
        (over_tcp, true),
        (over_udp(node), false),
    ] {
        let mut output = Output::<Question>::default();
        edge.receive(now(), flow, bytes, &mut output);
        for outgoing in output.outgoing() {
            let sent = output.written(outgoing.range.clone());
            let to = outgoing.flow.remote;
            assert!(!is_client || to == node || to.ip() == client.ip(), "{to}");
            let is_stun = sip_transport::stun::is_stun(sent);
            assert!(is_stun || Message::parse(sent).is_ok());
        }
    }
});

fn now() -> Time {
    Time::from_unix_seconds(1_800_000_000)
}

fn edge(node: SocketAddr) -> Edge {
    let listeners = [Protocol::Udp, Protocol::Tcp].map(|protocol| Listener {
        protocol,
        address: ([192, 0, 2, 1], 5060).into(),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
        behind_balancer: false,
    });
    let settings = Settings::new(listeners.into());
    let member = Member {
        identity: "node".to_owned(),
        number: 1,
        address: node,
        has_tcp: true,
        is_draining: false,
    };
    let members = Members::new(vec![member], &settings, 1, None).expect("a set");
    Edge::new(EdgeOptions {
        worker: 0,
        shared: Arc::new(Shared {
            hasher: KeyHasher::new((1, 2)),
            unanswered: Unanswered::new(1 << 20),
        }),
        settings: Arc::new(settings),
        members: Arc::new(members),
        metrics: Arc::new(EdgeMetrics::default()),
        now: now(),
    })
}
