//! Questions, answers, and stopping.

use super::script::{
    ANYWHERE, Answer, Client, PATIENCE, Question, Script, address_of, await_count, options, start,
    start_asking, udp_listener, workers,
};
use sip_runtime::{Options, Runtime, SendError};
use sip_transport::{Flow, ListenerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{TrySendError, channel, sync_channel};
use std::time::Duration;

#[test]
fn an_answer_wakes_a_sleeping_worker() {
    let running = start(ANYWHERE[0], 2, options());
    let client = Client::of(address_of(&running));
    let flow = Flow::to(ListenerId(0), client.address());
    let stats = running.stats();
    for round in 0..200_u16 {
        let worker = round % 2;
        // Only this answer can end its wait: no timer runs and no datagram arrives.
        await_count(&stats[usize::from(worker)].waits, 1 + u64::from(round / 2));
        let text = format!("answer {round}");
        running
            .send(worker, Answer::Send(flow, text.clone().into_bytes()))
            .expect("room");
        assert_eq!(client.receive(), text);
    }
    running.stop();
    assert_eq!(
        (stats[0].answers.value(), stats[1].answers.value()),
        (100, 100)
    );
}

#[test]
fn answers_from_many_threads_all_arrive() {
    const EACH: u64 = 20_000;
    let running = start(ANYWHERE[0], 1, options());
    let client = Client::of(address_of(&running));
    let unknown = Flow::to(ListenerId(9), client.address());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let handle = running.handle();
            scope.spawn(move || {
                for _ in 0..EACH {
                    let mut answer = Answer::Send(unknown, Vec::new());
                    while let Err(SendError::Full(back)) = handle.send(0, answer) {
                        answer = back;
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let stats = running.stats();
    await_count(&stats[0].answers, 3 * EACH);
    assert_eq!(client.asks("still there?"), "still there?");
    running.stop();
    assert_eq!(
        stats[0].send_errors.value(),
        3 * EACH,
        "no socket has that listener"
    );
}

#[test]
fn a_broadcast_reaches_every_worker() {
    let (sender, questions) = channel();
    let running = start_asking(ANYWHERE[0], 3, options(), &move |worker, question| {
        sender.send((worker, question)).map_err(|error| error.0.1)
    });
    running.broadcast(&Answer::Ask("hello")).expect("room");
    let mut heard: Vec<(u16, Question)> = (0..3)
        .map(|_| questions.recv_timeout(PATIENCE).expect("a question"))
        .collect();
    heard.sort_by_key(|(worker, _)| *worker);
    let expected =
        [0, 1, 2].map(|worker| (worker, Question::Text(format!("worker {worker}: hello"))));
    assert_eq!(heard, expected);
    running.stop();
}

#[test]
fn a_full_inbox_gives_the_answer_back() {
    let (node, blocked) = Script::blockable(0);
    let mut node = Some(node);
    let options = Options {
        waiting_answers: 2,
        ..options()
    };
    let running = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(1), options)
        .expect("bind")
        .start(|_| node.take().expect("one worker"), &|_, _| Ok(()))
        .expect("start");
    let client = Client::of(address_of(&running));
    let stats = running.stats();
    client.send("block");
    blocked.wait();
    let (first, second, third) = (Answer::Ask("1"), Answer::Ask("2"), Answer::Ask("3"));
    assert_eq!(running.send(0, first), Ok(()));
    assert_eq!(running.send(0, second), Ok(()));
    assert_eq!(
        running.send(0, third.clone()),
        Err(SendError::Full(third.clone()))
    );
    assert_eq!(running.broadcast(&third), Err(vec![0]));
    assert_eq!(running.send(1, third.clone()), Err(SendError::Gone(third)));
    blocked.release();
    await_count(&stats[0].answers, 2);
    running.stop();
}

#[test]
fn a_dropped_question_is_counted() {
    let (sender, questions) = sync_channel(1);
    let running = start_asking(ANYWHERE[0], 1, options(), &move |worker, question| {
        sender.try_send((worker, question)).map_err(|error| {
            let (TrySendError::Full(message) | TrySendError::Disconnected(message)) = error;
            message.1
        })
    });
    let client = Client::of(address_of(&running));
    for question in ["ask a", "ask b", "ask c"] {
        client.send(question);
    }
    assert_eq!(client.asks("still there?"), "still there?");
    let stats = running.stats();
    running.stop();
    assert_eq!(
        questions.recv_timeout(PATIENCE).expect("one"),
        (0, Question::Text("a".to_owned()))
    );
    assert_eq!(
        (
            stats[0].questions.value(),
            stats[0].questions_dropped.value()
        ),
        (3, 2)
    );
}

/// A value that takes time to drop.
struct Slow(Arc<AtomicUsize>, Duration);

impl Drop for Slow {
    fn drop(&mut self) {
        std::thread::sleep(self.1);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn stop_returns_when_every_worker_has_ended() {
    let ended = Arc::new(AtomicUsize::new(0));
    let node = |worker| {
        let slow = Slow(
            Arc::clone(&ended),
            Duration::from_millis(50 * (4 - u64::from(worker))),
        );
        Script::blocking(worker, move || _ = &slow)
    };
    let running = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(4), options())
        .expect("bind")
        .start(node, &|_, _| Ok(()))
        .expect("start");
    running.stop();
    assert_eq!(ended.load(Ordering::SeqCst), 4);
}

#[test]
fn stop_closes_the_inboxes_and_the_sockets() {
    let running = start("127.99.0.1:0", 4, options());
    let server = address_of(&running);
    let handle = running.handle();
    running.stop();
    let late = Answer::Ask("late");
    assert_eq!(handle.send(0, late.clone()), Err(SendError::Gone(late)));
    std::net::UdpSocket::bind(server).expect("nobody is bound there any more");
}

#[test]
fn dropping_stops_as_well() {
    let running = start("127.99.0.2:0", 2, options());
    let server = address_of(&running);
    drop(running);
    std::net::UdpSocket::bind(server).expect("nobody is bound there any more");
}
