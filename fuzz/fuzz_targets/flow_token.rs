//! A Route that the server did not issue. Whatever its token and cookie are, it never reaches another peer's connection.
//!
//! Input: the token and the cookie, separated by a line feed.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{DeadTargets, Exchange, ExchangeOptions, Foreign, Settings, Shared};
use sip_message::KeyHasher;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Node, Output, Protocol, Time};
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |octet| *octet == b'\n');
    let (token, cookie) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let now = Time::from_unix_seconds(1_800_000_000);
    let mut node = node(now);
    let flow = Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(0, 5),
        remote: ([192, 0, 2, 9], 40_000).into(),
    };
    let request = [
        &b"BYE sip:bob@192.0.2.20 SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.9;branch=z9hG4bK1\r\n\
        Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>;tag=2\r\n\
        Call-ID: 1\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\nRoute: <sip:192.0.2.1;lr;fl="[..],
        token,
        b";ck=",
        cookie,
        b">\r\n\r\n",
    ]
    .concat();
    let mut output = Output::default();
    node.receive(now, flow, &request, &mut output);
    for outgoing in output.outgoing() {
        let to = outgoing.flow;
        assert!(!to.connection.is_some() || to == flow, "{to:?}");
    }
});

/// A node that relays for everyone and supports UDP and TCP.
fn node(now: Time) -> Exchange {
    let listeners = [Protocol::Udp, Protocol::Tcp].map(|protocol| Listener {
        protocol,
        address: ([192, 0, 2, 1], 5060).into(),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
        behind_balancer: false,
    });
    let mut settings = Settings::new(&["example.com".into()], listeners.to_vec());
    settings.challenge.clear();
    settings.proxy.foreign = Foreign::Relay;
    Exchange::new(ExchangeOptions {
        worker: 0,
        workers: 1,
        shared: Arc::new(Shared {
            locations: Locations::new(LocationLimits {
                max_bindings: 8,
                max_pending_changes: 8,
            }),
            credentials: CredentialCache::new(8, 3600, 60),
            nonces: Nonces::new((1, 2), 8),
            bans: sip_elements::bans::Bans::default(),
            dead_targets: DeadTargets::default(),
            edges: sip_elements::Edges::default(),
            services: sip_elements::services::Services::default(),
            hasher: KeyHasher::new((3, 4)),
        }),
        settings: Arc::new(settings),
        metrics: Arc::new(WorkerMetrics::default()),
        seed: [7; 32],
        now,
    })
}
