//! A worker inside the event loop of another program.

use super::script::{
    ANYWHERE, Answer, Client, PATIENCE, Question, Script, options, udp_listener, workers,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sip_runtime::{ControlPlane, Driver, EventLoopKind, Options, Runtime, SendError};
use sip_transport::overload::OverloadSettings;
use sip_transport::{Flow, ListenerId};
use std::convert::Infallible;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Drives a scripted worker, if the event loop supports it.
fn drive<Q: ControlPlane<Question, Infallible>>(
    addresses: &[&str],
    questions: Q,
    test: impl FnOnce(Driver<Script, Q>),
) {
    let listeners = addresses.iter().copied().map(udp_listener).collect();
    let bound = Runtime::bind(listeners, workers(1), options()).expect("bind");
    let driver = bound.drive(Script::new(0), questions);
    if crate::EVENT_LOOP == EventLoopKind::Epoll {
        test(driver.expect("a driver"));
    } else {
        let error = driver.expect_err("no descriptor").to_string();
        assert!(error.contains("use epoll"), "{error}");
    }
}

/// The other program's loop: waits only for the driver, until `is_done`. Returns how often it was woken.
fn run<Q: ControlPlane<Question, Infallible>>(
    driver: &mut Driver<Script, Q>,
    mut is_done: impl FnMut() -> bool,
) -> usize {
    let start = Instant::now();
    let mut turns = 0;
    loop {
        driver.turn();
        if is_done() {
            return turns;
        }
        turns += 1;
        assert!(start.elapsed() < PATIENCE, "{turns} turns");
        let timeout = driver.deadline().unwrap_or(PATIENCE).min(PATIENCE);
        let timeout = Timespec::try_from(timeout).expect("short");
        let descriptor = driver.descriptor();
        poll(
            &mut [PollFd::new(&descriptor, PollFlags::IN)],
            Some(&timeout),
        )
        .expect("poll");
    }
}

#[test]
fn datagrams_are_answered_in_turns_and_nothing_happens_in_between() {
    drive(
        &ANYWHERE,
        |_, _| Ok(()),
        |mut driver| {
            let clients: Vec<Client> = driver
                .listeners()
                .iter()
                .map(|listener| Client::of(listener.address))
                .collect();
            let stats = driver.stats();
            for round in 1..=100 {
                for client in &clients {
                    client.send("hello");
                }
                let wanted = 2 * round;
                run(&mut driver, || stats.datagrams_sent.value() == wanted);
                assert!(clients.iter().all(|client| client.receive() == "hello"));
            }
            // There are no events left: an idle stack must not keep the loop busy.
            driver.turn();
            let quiet = Instant::now();
            let turns = run(&mut driver, || quiet.elapsed() > Duration::from_millis(300));
            assert!(turns < 5, "{turns} turns with nothing to do");
        },
    );
}

#[test]
fn a_reported_deadline_is_kept() {
    let (sender, questions) = channel();
    let sink = move |_, question| sender.send(question).map_err(|error| error.0);
    drive(&ANYWHERE[..1], sink, |mut driver| {
        let client = Client::of(driver.listeners()[0].address);
        client.send("alarm 70");
        let mut alarm = None;
        let turns = run(&mut driver, || {
            alarm = questions.try_recv().ok();
            alarm.is_some()
        });
        let Some(Question::Alarm { due, told }) = alarm else {
            panic!("{alarm:?}")
        };
        assert!(told >= due && told.saturating_since(due) < Duration::from_secs(1));
        assert!(turns < 10, "{turns} turns for a datagram and an alarm");
    });
}

#[test]
fn a_post_from_another_thread_wakes_the_loop() {
    drive(
        &ANYWHERE[..1],
        |_, _| Ok(()),
        |mut driver| {
            let client = Client::of(driver.listeners()[0].address);
            let flow = Flow::to(ListenerId(0), client.address());
            let (handle, stats) = (driver.handle(), driver.stats());
            let poster = std::thread::spawn(move || {
                for number in 0..50_u8 {
                    let text = format!("answer {number}");
                    let posted = handle.send(0, Answer::Send(flow, text.clone().into_bytes()));
                    posted.expect("room");
                    assert_eq!(client.receive(), text);
                }
                handle
            });
            run(&mut driver, || stats.answers.value() == 50);
            run(&mut driver, || stats.datagrams_sent.value() == 50);
            let handle = poster.join().expect("all came");
            drop(driver);
            let late = Answer::Ask("late");
            assert_eq!(handle.send(0, late.clone()), Err(SendError::Gone(late)));
        },
    );
}

#[test]
fn a_flood_leaves_the_loop_its_turn() {
    drive(
        &ANYWHERE[..1],
        |_, _| Ok(()),
        |mut driver| {
            let address = driver.listeners()[0].address;
            let storm = Client::of(address);
            // From now on the node keeps its own socket filled.
            for _ in 0..10 {
                storm.send(&format!("storm {}", address.port()));
            }
            let stats = driver.stats();
            run(&mut driver, || stats.datagrams_received.value() > 1_000);
            assert_eq!(
                driver.deadline(),
                Some(Duration::ZERO),
                "there is more to do"
            );
        },
    );
}

#[test]
fn steady_traffic_leaves_the_backlog_after_a_delay() {
    if crate::EVENT_LOOP != EventLoopKind::Epoll {
        return; // No other event loop can be driven.
    }
    let options = Options {
        overload: Some(OverloadSettings::default()),
        ..options()
    };
    let bound = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(1), options).expect("bind");
    let mut driver = bound
        .drive(Script::new(0), |_, _| Ok(()))
        .expect("a driver");
    let address = driver.listeners()[0].address;
    let (storm, client) = (Client::of(address), Client::of(address));
    // From now on the node keeps this number of datagrams in its own socket: more than it serves from the backlog in a round.
    for _ in 0..100 {
        storm.send(&format!("storm {}", address.port()));
    }
    let stats = driver.stats();
    let mut was_behind = || {
        client.send("first");
        client.send("urgent");
        std::thread::sleep(Duration::from_millis(20));
        let sent = stats.datagrams_sent.value();
        run(&mut driver, || stats.datagrams_sent.value() > sent + 300);
        [client.receive(), client.receive()] == ["urgent", "first"]
    };
    // The kernel starts to add timestamps a moment after the option is set.
    assert!((0..50).any(|_| was_behind()));
    run(&mut driver, || stats.backlog.value() == 0);
}

#[test]
fn a_loop_drives_one_worker() {
    let listeners = vec![udp_listener(ANYWHERE[0])];
    let bound = Runtime::bind(listeners, workers(2), options()).expect("bind");
    let error = bound.drive(Script::new(0), |_, _| Ok(()));
    let text = error.expect_err("one is enough").to_string();
    assert!(text.contains("one worker"), "{text}");
}

#[test]
fn connections_are_served_in_the_turn_that_finds_them_ready() {
    use std::io::{Read, Write};
    if crate::EVENT_LOOP != EventLoopKind::Epoll {
        return; // No other event loop has a descriptor to wait for.
    }
    let mut listener = udp_listener(ANYWHERE[0]);
    listener.protocol = sip_transport::Protocol::Tcp;
    let bound = Runtime::bind(vec![listener], workers(1), options()).expect("bind");
    let mut driver = bound
        .drive(Script::new(0), |_, _| Ok(()))
        .expect("a driver");
    let address = driver.listeners()[0].address;
    let mut peer = std::net::TcpStream::connect(address).expect("connect");
    let stats = driver.stats();
    run(&mut driver, || stats.connections.value() == 1);
    let message = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
    for round in 1..=20 {
        peer.write_all(message).expect("sent");
        let begun = Instant::now();
        run(&mut driver, || stats.stream_messages_sent.value() == round);
        assert!(begun.elapsed() < Duration::from_millis(500));
        peer.read_exact(&mut [0; 44]).expect("the same");
    }
}
