//! Messages that one worker reads and another handles.

use super::script::{
    ANYWHERE, Client, Script, address_of, await_count, options, start, udp_listener, workers,
};
use sip_runtime::{Options, Runtime};

#[test]
fn a_message_handed_over_is_handled_by_its_home_in_order() {
    const MESSAGES: usize = 200;
    for address in ANYWHERE {
        let running = start(address, 4, options());
        // Every reader hands over to every home worker, including itself.
        let clients: Vec<(u16, Client)> = (0..4)
            .flat_map(|reader| (0..4).map(move |home| (reader, home)))
            .map(|(reader, home)| (home, Client::read_by(address_of(&running), reader)))
            .collect();
        for message in 0..MESSAGES {
            for (home, client) in &clients {
                client.send(&format!("to {home} message {message}"));
            }
        }
        for (home, client) in &clients {
            for message in 0..MESSAGES {
                assert_eq!(
                    client.receive(),
                    format!("worker {home}: message {message}")
                );
            }
        }
        let stats = running.stats();
        running.stop();
        for stats in &*stats {
            assert_eq!(stats.handed_over_in.value(), 4 * MESSAGES as u64);
            assert_eq!(stats.handed_over_out.value(), 4 * MESSAGES as u64);
            assert_eq!(stats.hand_overs_dropped.value(), 0);
        }
    }
}

#[test]
fn a_hand_over_wakes_a_sleeping_worker() {
    let running = start(ANYWHERE[0], 2, options());
    let client = Client::read_by(address_of(&running), 0);
    let home = &running.stats()[1];
    // The worker wakes once on its own, a second after its last datagram. After that, only a
    // hand-over can wake it.
    for message in 0..100 {
        let waits = home.waits.value();
        assert_eq!(
            client.asks(&format!("to 1 {message}")),
            format!("worker 1: {message}")
        );
        await_count(&home.waits, waits + 1);
    }
    running.stop();
}

#[test]
fn what_a_full_inbox_cannot_take_is_dropped_and_counted() {
    let options = Options {
        waiting_hand_overs: 3,
        ..options()
    };
    let (node, blocked) = Script::blockable(1);
    let mut blockable = Some(node);
    let running = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(2), options)
        .expect("bind")
        .start(
            |worker| {
                if worker == 1 {
                    blockable.take().expect("once")
                } else {
                    Script::new(worker)
                }
            },
            &|_, _| Ok(()),
        )
        .expect("start");
    let server = address_of(&running);
    let (client, other) = (Client::read_by(server, 0), Client::read_by(server, 1));
    let stats = running.stats();

    other.send("block");
    blocked.wait();
    for message in 0..5 {
        client.send(&format!("to 1 {message}"));
    }
    await_count(&stats[0].hand_overs_dropped, 2);
    blocked.release();
    for message in 0..3 {
        assert_eq!(client.receive(), format!("worker 1: {message}"));
    }
    // There is room again.
    assert_eq!(client.asks("to 1 later"), "worker 1: later");
    running.stop();
    assert_eq!(
        (
            stats[0].handed_over_out.value(),
            stats[0].hand_overs_dropped.value()
        ),
        (4, 2)
    );
    assert_eq!(stats[1].handed_over_in.value(), 4);
}

#[test]
fn a_hand_over_to_a_worker_that_does_not_exist_is_dropped_and_counted() {
    let running = start(ANYWHERE[0], 1, options());
    let client = Client::of(address_of(&running));
    client.send("to 7 nobody");
    assert_eq!(client.asks("still there?"), "still there?");
    let stats = running.stats();
    running.stop();
    assert_eq!(
        (
            stats[0].handed_over_out.value(),
            stats[0].hand_overs_dropped.value()
        ),
        (0, 1)
    );
}
