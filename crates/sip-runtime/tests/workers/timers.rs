//! Deadlines.

use crate::script::{ANYWHERE, Client, PATIENCE, Question, address_of, start_asking};
use sip_runtime::{EventLoopKind, Options};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How late a timer may fire: T1/10 is 50 ms, and the resolution is to be well below.
const TOLERANCE: Duration = Duration::from_millis(20);

fn check_alarms(event_loop: EventLoopKind) {
    const ALARMS: usize = 40;
    let options = Options {
        event_loop,
        ..Options::default()
    };
    let clock = options.clock;
    let (sender, questions) = channel();
    let running = start_asking(ANYWHERE[0], 1, options, &move |_, question| {
        sender
            .send((clock.now(), question))
            .map_err(|error| error.0.1)
    });
    let client = Client::of(address_of(&running));
    for alarm in (0..ALARMS).rev() {
        client.send(&format!("alarm {}", alarm * 7));
    }
    let mut last_due = None;
    let mut delays: Vec<Duration> = Vec::new();
    for _ in 0..ALARMS {
        let (now, question) = questions.recv_timeout(PATIENCE).expect("an alarm");
        let Question::Alarm { due, told } = question else {
            panic!("{question:?}")
        };
        assert!(
            told >= due && now >= told,
            "never early, and never told a time to come"
        );
        assert!(last_due.replace(due) <= Some(due), "in their order");
        delays.push(now.saturating_since(due));
    }
    running.stop();
    // Of all but a few: other programs may keep the CPU from us for a while.
    delays.sort();
    assert!(delays[ALARMS * 3 / 4] <= TOLERANCE, "{delays:?}");
}

#[test]
fn timers_fire_on_time_and_never_early() {
    check_alarms(EventLoopKind::Epoll);
    check_alarms(EventLoopKind::Poll);
}

#[test]
fn timers_fire_on_time_while_datagrams_keep_the_worker_busy() {
    let options = Options::default();
    let clock = options.clock;
    let (sender, questions) = channel();
    let running = start_asking(ANYWHERE[0], 1, options, &move |_, question| {
        sender
            .send((clock.now(), question))
            .map_err(|error| error.0.1)
    });
    let client = Client::of(address_of(&running));
    client.send("alarm 30");
    let fired = loop {
        client.send("noise");
        if let Ok(fired) = questions.try_recv() {
            break fired;
        }
        client.receive();
    };
    let (now, Question::Alarm { due, .. }) = fired else {
        panic!("{fired:?}")
    };
    assert!(now >= due && now.saturating_since(due) < PATIENCE);
    running.stop();
}
