//! A user agent with callbacks, inside the program's own loop.

use crate::peer::{Peer, T1};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sip_message::Message;
use sip_stack::{
    AgentSettings, CallControl, CallEvent, CallHandler, CallNumber, Driver, Session, Setup,
    TimerSettings, UserAgent,
};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Accepts calls, accepts no change of them, and says what happens.
struct Program(Sender<String>);

impl CallHandler for Program {
    fn call(&mut self, calls: &mut CallControl<'_, '_>, call: CallNumber, event: CallEvent) {
        // The receiver is gone after the end of the test.
        let _ = self.0.send(format!("{event:?}"));
        if let CallEvent::Incoming(_) = event {
            assert!(calls.accept(call, "answer"));
            assert!(!calls.accept(call, "answer"), "once");
        }
    }

    fn renegotiate(&mut self, _: CallNumber, _: &Message<'_>, _: &Session) -> Option<Session> {
        None
    }
}

/// Runs the loop of the program until a thread has ended.
fn run_until<T>(driver: &mut Driver<UserAgent<Program>>, thread: JoinHandle<T>) -> T {
    while !thread.is_finished() {
        driver.turn();
        let longest = driver.deadline().unwrap_or(T1).min(T1);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: longest.subsec_nanos().into(),
        };
        let descriptor = driver.descriptor();
        let mut waiting = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut waiting, Some(&timeout)).expect("polled");
    }
    thread.join().expect("no panic")
}

#[test]
fn a_program_takes_calls_in_its_own_loop_and_may_refuse_changes() {
    let (events, heard) = channel();
    let settings = AgentSettings::new("sip:alice@example.org").expect("an address");
    let agent = UserAgent::new(settings, Program(events));
    let timers = TimerSettings {
        t1: T1,
        ..TimerSettings::default()
    };
    let setup = Setup::new().udp("127.0.0.1:0").expect("an address");
    let mut driver = setup.timers(timers).drive(agent).expect("a driver");
    let own = driver.listeners()[0].address;
    let script = std::thread::spawn(move || {
        let mut peer = Peer::new();
        let send = |peer: &Peer, method: &str, cseq: u32, to: &str| {
            let head = format!("To: {to}\r\nCall-ID: 1\r\nCSeq: {cseq} {method}\r\n");
            let line = format!("{method} sip:alice@{own}");
            let branch = format!("{method}{cseq}");
            peer.send(own, &peer.request(&line, &branch, &head, ""));
        };
        send(&peer, "INVITE", 1, "<sip:alice@example.org>");
        peer.expect("SIP/2.0 100 ");
        let answer = peer.expect("SIP/2.0 200 ");
        let to = answer.value("To");
        send(&peer, "ACK", 1, to);
        send(&peer, "INVITE", 2, to);
        peer.expect("SIP/2.0 488 ");
        send(&peer, "ACK", 2, to);
        send(&peer, "BYE", 3, to);
        peer.expect("SIP/2.0 200 ");
    });
    run_until(&mut driver, script);
    let heard: Vec<String> = heard.try_iter().collect();
    let line = |method: &str| format!("{method} sip:alice@{own} SIP/2.0");
    let expected = [
        format!("Incoming({})", line("INVITE")),
        format!("Confirmed({})", line("ACK")),
        "Ended(ByPeer)".to_owned(),
    ];
    assert_eq!(heard, expected);
}
