//! Members from a name server on loopback.
mod common;

use common::{Api, any_port, eventually, options};
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tandem_fleet::Controller;
use tandem_fleet::source::{DnsSource, Source};
use tokio::net::UdpSocket;

/// The records of the zone; without any entry, the server answers SERVFAIL.
type Zone = Arc<Mutex<BTreeMap<(String, RecordType), Vec<RData>>>>;

async fn name_server(zone: Zone) -> SocketAddr {
    let socket = UdpSocket::bind(any_port()).await.expect("bound");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buffer = [0; 4_096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let answer = answer(&buffer[..length], &zone);
            let _ = socket.send_to(&answer, from).await;
        }
    });
    address
}

fn answer(query: &[u8], zone: &Zone) -> Vec<u8> {
    let query = Message::from_vec(query).expect("a query");
    let question = query.queries[0].clone();
    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.add_query(question.clone());
    let zone = zone.lock().expect("no panic");
    if zone.is_empty() {
        response.metadata.response_code = ResponseCode::ServFail;
    }
    let key = (question.name().to_string(), question.query_type());
    for data in zone.get(&key).into_iter().flatten() {
        response.add_answer(Record::from_rdata(
            question.name().clone(),
            60,
            data.clone(),
        ));
    }
    response.to_vec().expect("bytes")
}

fn source(name: &str, server: SocketAddr) -> Source {
    Source::Dns(DnsSource {
        name: name.to_owned(),
        port: 5060,
        refresh: Duration::from_millis(50),
        servers: vec![server],
        admin_port: Some(8060),
    })
}

fn four(last: u8) -> RData {
    RData::A(A(Ipv4Addr::new(10, 0, 0, last)))
}

#[tokio::test]
async fn addresses_of_a_name_are_nodes_for_as_long_as_they_are_there() {
    let zone = Zone::default();
    let key = ("nodes.test.".to_owned(), RecordType::A);
    zone.lock()
        .expect("no panic")
        .insert(key.clone(), vec![four(2), four(1)]);
    let mut quick = options(source("nodes.test", name_server(Arc::clone(&zone)).await));
    quick.grace = Duration::from_millis(300);
    let controller = Controller::start(quick).await.expect("started");
    let api = Api::of(&controller).await;
    assert_eq!(
        api.states().await,
        "10.0.0.1:5060=active 10.0.0.2:5060=active"
    );
    zone.lock()
        .expect("no panic")
        .insert(key.clone(), vec![four(1)]);
    api.until("10.0.0.1:5060=active 10.0.0.2:5060=draining")
        .await;
    api.until("10.0.0.1:5060=active").await;
    // No records and no answer are both no reason to forget the last node.
    for (clear, problem) in [(false, "no nodes"), (true, "nodes.test")] {
        {
            let mut zone = zone.lock().expect("no panic");
            zone.insert(key.clone(), vec![]);
            if clear {
                zone.clear();
            }
        }
        eventually(problem, || async {
            let (status, ready) = api.get("/health/ready").await;
            assert_eq!(status, 200);
            ready["problems"][0]
                .as_str()
                .filter(|it| it.contains(problem))
                .map(|_| ())
        })
        .await;
        assert_eq!(api.states().await, "10.0.0.1:5060=active");
    }
    zone.lock()
        .expect("no panic")
        .insert(key, vec![four(3), four(1)]);
    api.until("10.0.0.1:5060=active 10.0.0.3:5060=active").await;
}

#[tokio::test]
async fn targets_of_srv_records_are_nodes_with_their_own_ports() {
    let zone = Zone::default();
    let service = "_sip._udp.nodes.test.";
    let target = |label: &str| Name::from_ascii(format!("{label}.nodes.test.")).expect("a name");
    let six = RData::AAAA(AAAA(Ipv6Addr::LOCALHOST));
    {
        let mut zone = zone.lock().expect("no panic");
        let servers = [("tandem-0", 5060), ("tandem-1", 5070)];
        let servers = servers.map(|(label, port)| RData::SRV(SRV::new(0, 0, port, target(label))));
        zone.insert((service.to_owned(), RecordType::SRV), servers.to_vec());
        zone.insert(
            ("tandem-0.nodes.test.".to_owned(), RecordType::A),
            vec![four(5)],
        );
        zone.insert(
            ("tandem-0.nodes.test.".to_owned(), RecordType::AAAA),
            vec![six.clone()],
        );
        zone.insert(
            ("tandem-1.nodes.test.".to_owned(), RecordType::AAAA),
            vec![six],
        );
    }
    let server = name_server(Arc::clone(&zone)).await;
    let controller = Controller::start(options(source(service, server)))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    assert_eq!(api.states().await, "tandem-0=active tandem-1=active");
    let (_, set) = api.get("/v1/members").await;
    let addresses = [&set["nodes"][0]["address"], &set["nodes"][1]["address"]];
    assert_eq!(addresses, [&json!("10.0.0.5:5060"), &json!("[::1]:5070")]);
    assert_eq!(set["nodes"][0]["admin"], "10.0.0.5:8060");
}
