//! The player of an agent against servers that respond incorrectly.

use super::player::Player;
use crate::controller::protocol::AgentReport;
use crate::run::{Settings, Subscribers, Transport};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that answers every datagram with these bytes.
fn server(answer: &'static [u8]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            // The peer may be gone already.
            let _ = socket.send_to(answer, from);
        }
    });
    address
}

fn player(server: SocketAddr) -> Player {
    let settings = Settings {
        server,
        transport: Transport::Udp,
        from: None,
        subscribers: Subscribers {
            first: 0,
            count: 0,
            user: "user{}".parse().expect("a pattern"),
            password: "password{}".parse().expect("a pattern"),
            domain: "example.org".into(),
        },
        expires: 3_600,
        ports: 1,
        workers: 2,
        most: 1_000,
    };
    Player::new(settings, 10)
}

async fn until(player: &mut Player, is_true: impl Fn(&AgentReport) -> bool) -> AgentReport {
    let began = Instant::now();
    loop {
        player.catch_up().await;
        let report = player.report();
        if is_true(&report) {
            return report;
        }
        assert!(began.elapsed() < PATIENCE, "{report:#?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_with_invalid_responses_is_counted_and_registers_no_phone() {
    for nonsense in [
        &b"go away"[..],
        b"SIP/2.0 200\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: nothing\r\nCSeq: x\r\n\r\n",
        b"\xff\x00\xfe\xff\xff\xff\xff",
    ] {
        let mut player = player(server(nonsense));
        player.register(1, vec![3, 7], 1_000).await;
        let report = until(&mut player, |report| {
            report.nonsense + report.unexpected > 0 || report.registered > 0
        });
        let report = report.await;
        assert_eq!(report.registered, 0, "{nonsense:?}");
        player.begin(7, Duration::ZERO, Duration::ZERO);
        player.call(&[(3, 7), (7, 3)], Instant::now());
        let report = until(&mut player, |report| {
            report.nonsense + report.unexpected > 0
        })
        .await;
        assert_eq!(
            (report.run, report.commanded, report.succeeded),
            (Some(7), 2, 0)
        );
    }
}

#[tokio::test]
async fn a_call_of_a_phone_that_is_not_played_here_fails_with_the_reason() {
    let mut player = player(server(b"nothing"));
    player.register(1, vec![3, 7], 1_000).await;
    player.begin(7, Duration::ZERO, Duration::ZERO);
    player.call(&[(2, 3), (8, 3)], Instant::now());
    let report = until(&mut player, |report| report.commanded == 2).await;
    assert_eq!(report.failed.values().sum::<u64>(), 2);
    assert!(
        report
            .failed
            .keys()
            .all(|reason| reason.starts_with("no such phone here"))
    );
}

#[tokio::test]
async fn more_phones_than_there_is_room_for_are_not_registered_and_say_why() {
    let mut player = player(server(b"nothing"));
    player.register(1, (0..11).collect(), 1_000).await;
    let report = player.report();
    assert_eq!(report.unregistered.values().sum::<u64>(), 11);
    player.register(2, vec![0, 5_000_000], 1_000).await;
    assert_eq!(player.report().unregistered.values().sum::<u64>(), 2);
}
