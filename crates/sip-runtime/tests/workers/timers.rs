//! Deadlines.

use super::script::{ANYWHERE, Client, PATIENCE, Question, address_of, options, start_asking};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How late a timer may fire. T1/10 is 50 ms, and the resolution must be well below that.
const TOLERANCE: Duration = Duration::from_millis(20);

/// How late each of many alarms fired.
fn delays_of_alarms() -> Vec<Duration> {
    const ALARMS: usize = 40;
    let options = options();
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
        delays.push(now.saturating_since(due));
    }
    running.stop();
    delays
}

#[test]
fn timers_fire_on_time_and_never_early() {
    // Other programs may take the CPU for a while, so not every alarm and not every attempt counts.
    // A loop with too coarse a resolution never gets half of them right.
    let is_on_time = (0..5).any(|_| {
        let delays = delays_of_alarms();
        let on_time = delays.iter().filter(|delay| **delay <= TOLERANCE).count();
        on_time * 2 >= delays.len()
    });
    assert!(is_on_time);
}

#[test]
fn timers_fire_on_time_while_datagrams_keep_the_worker_busy() {
    let options = options();
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

#[test]
fn timers_that_are_always_due_do_not_starve_the_sockets() {
    let running = start_asking(ANYWHERE[0], 1, options(), &|_, _| Ok(()));
    let client = Client::of(address_of(&running));
    client.send("restless");
    for _ in 0..100 {
        assert_eq!(client.asks("still there?"), "still there?");
    }
    running.stop();
}
