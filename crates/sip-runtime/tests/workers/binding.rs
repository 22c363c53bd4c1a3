//! Addresses that are in use, shared or rejected.

use super::script::{ANYWHERE, options, udp_listener, workers};
use sip_runtime::{BindError, Bound, Options, Runtime};
use std::net::UdpSocket;
use std::time::Duration;

fn bind(address: &str, count: u16, share_port: bool) -> Result<Bound, BindError> {
    let options = Options {
        share_port,
        ..options()
    };
    Runtime::bind(vec![udp_listener(address)], workers(count), options)
}

fn assert_in_use(result: Result<Bound, BindError>, expected: &str) {
    let error = result.expect_err("the port is taken");
    assert!(matches!(&error, BindError::InUse { address, .. } if address.to_string() == expected));
    assert!(
        error
            .to_string()
            .contains(&format!("UDP {expected} is in use")),
        "{error}"
    );
}

#[test]
fn a_port_that_another_process_shares_is_refused() {
    for address in ANYWHERE {
        for others in [1, 2] {
            let there = bind(address, others, others == 2).expect("bind");
            let taken = there.listeners()[0].address.to_string();
            for count in [1, 4] {
                assert_in_use(bind(&taken, count, false), &taken);
            }
        }
    }
}

#[test]
fn a_port_is_shared_when_both_allow_it() {
    for address in ANYWHERE {
        let there = bind(address, 2, true).expect("bind");
        let taken = there.listeners()[0].address.to_string();
        bind(&taken, 2, true).expect("shared");
    }
}

#[test]
fn a_stranger_on_the_wildcard_address_is_noticed() {
    let stranger = UdpSocket::bind("0.0.0.0:0").expect("bind");
    let port = stranger.local_addr().expect("address").port();
    let address = format!("127.0.0.1:{port}");
    assert_in_use(bind(&address, 2, false), &address);
}

#[test]
fn a_refusal_leaves_nothing_bound() {
    let taken = UdpSocket::bind(ANYWHERE[0]).expect("bind");
    let free = "127.99.0.4:5060";
    let listeners = vec![
        udp_listener(free),
        udp_listener(&taken.local_addr().expect("address").to_string()),
    ];
    Runtime::bind(listeners, workers(3), options()).expect_err("the second is taken");
    UdpSocket::bind(free).expect("closed again");
}

#[test]
fn port_zero_becomes_one_port_for_all_workers() {
    for address in ANYWHERE {
        let bound = bind(address, 4, false).expect("bind");
        let listener = &bound.listeners()[0];
        assert_ne!(listener.address.port(), 0);
        assert_eq!(
            listener.advertised,
            listener.address.to_string(),
            "nothing else was configured"
        );
    }
}

#[test]
fn a_configured_advertisement_stays() {
    let mut listener = udp_listener(ANYWHERE[0]);
    listener.advertised = "203.0.113.5:5060".to_owned();
    let bound = Runtime::bind(vec![listener], workers(1), options()).expect("bind");
    assert_eq!(bound.listeners()[0].advertised, "203.0.113.5:5060");
}

#[test]
fn the_granted_receive_buffer_is_reported() {
    for address in ANYWHERE {
        let options = Options {
            receive_buffer: 100_000,
            ..options()
        };
        let running = Runtime::bind(vec![udp_listener(address)], workers(2), options)
            .expect("bind")
            .start(super::script::Script::new, &|_, _| Ok(()))
            .expect("start");
        for stats in &*running.stats() {
            assert_eq!(stats.receive_buffer.value(), 100_000);
        }
        running.stop();
    }
}

#[test]
fn what_cannot_be_a_listener_is_refused_with_the_reason() {
    for (address, reason) in [
        ("0.0.0.0:5060", "UDP 0.0.0.0:5060 is a wildcard"),
        ("[::]:5060", "UDP [::]:5060 is a wildcard"),
        ("[::ffff:127.0.0.1]:0", "cannot bind: Invalid argument"),
        (
            "192.0.2.77:5060",
            "no interface of this machine has this address",
        ),
    ] {
        let error = bind(address, 1, false).expect_err("refused").to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_process_about_to_end_is_waited_for() {
    for address in ANYWHERE {
        let there = bind(address, 2, false).expect("bind");
        let taken = there.listeners()[0].address.to_string();
        let leaves = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            drop(there);
        });
        bind(&taken, 2, false).expect("it has gone");
        leaves.join().expect("it has gone");
    }
}
