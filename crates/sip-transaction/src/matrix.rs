//! The full state × event matrix of each machine, as snapshots: the response of every state to every event, over an unreliable and over a
//! reliable transport.

use crate::step::{Keep, Step, Tell, Timers, Transmit};
use crate::timer::Timing;
use crate::{TimerSettings, client_invite, client_non_invite, server_invite, server_non_invite};
use std::fmt::{Debug, Write};

const UNRELIABLE: Timing = Timing {
    settings: SETTINGS,
    reliable: false,
};
const RELIABLE: Timing = Timing {
    settings: SETTINGS,
    reliable: true,
};
const SETTINGS: TimerSettings = {
    use std::time::Duration;
    TimerSettings {
        t1: Duration::from_millis(500),
        t2: Duration::from_secs(4),
        t4: Duration::from_secs(5),
    }
};

/// The actions, then the new state. `-` means no action; the state is omitted if it stays.
fn line<S: Debug + PartialEq>(before: Option<&S>, step: &Step<S>) -> String {
    let mut parts = Vec::new();
    match step.send {
        Transmit::Nothing => {}
        Transmit::Given => parts.push("send what the user gives".to_owned()),
        Transmit::Kept => parts.push("send what is kept".to_owned()),
        Transmit::Ack => parts.push("send ACK".to_owned()),
        Transmit::Cancel => parts.push("send CANCEL".to_owned()),
    }
    match step.keep {
        Keep::AsIs => {}
        Keep::Sent => parts.push("keep what was sent".to_owned()),
        Keep::Nothing => parts.push("keep nothing".to_owned()),
    }
    match step.timers {
        Timers::AsIs => {}
        Timers::Stop => parts.push("stop timers".to_owned()),
        Timers::Repeat(timer, after) => parts.push(format!("repeat {timer:?} after {after:?}")),
        Timers::Start {
            repeat,
            end: (timer, after),
        } => {
            parts.extend(repeat.map(|(timer, after)| format!("start {timer:?} {after:?}")));
            parts.push(format!("start {timer:?} {after:?}"));
        }
    }
    match step.tell {
        Tell::Nothing => {}
        Tell::Message => parts.push("pass up".to_owned()),
        Tell::Timeout => parts.push("report timeout".to_owned()),
    }
    if step.next.as_ref() != before {
        parts.push(
            step.next
                .as_ref()
                .map_or("ends".to_owned(), |state| format!("-> {state:?}")),
        );
    }
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join("; ")
    }
}

type Reaction<'m, S> = (&'m str, &'m dyn Fn(S, Timing) -> Step<S>);

/// Formats every state against every event.
fn matrix<S: Debug + Copy + PartialEq>(states: &[S], events: &[Reaction<'_, S>]) -> String {
    let mut text = String::new();
    for (transport, timing) in [("unreliable", UNRELIABLE), ("reliable", RELIABLE)] {
        for &state in states {
            writeln!(text, "{transport}, {state:?}").unwrap();
            for (event, react) in events {
                writeln!(
                    text,
                    "  {event:<24} {}",
                    line(Some(&state), &react(state, timing))
                )
                .unwrap();
            }
            text.push('\n');
        }
    }
    text
}

fn start<S: Debug + PartialEq>(begin: impl Fn(Timing) -> Step<S>) -> String {
    let (unreliable, reliable) = (line(None, &begin(UNRELIABLE)), line(None, &begin(RELIABLE)));
    format!("unreliable, start\n  {unreliable}\nreliable, start\n  {reliable}\n\n")
}

#[test]
fn client_invite_answers_every_event_in_every_state() {
    use client_invite::State;
    let states = [
        State::Calling,
        State::CallingToCancel,
        State::Proceeding,
        State::Cancelling,
        State::Completed,
        State::Accepted,
    ];
    let events: [Reaction<'_, State>; 11] = [
        ("1xx", &State::provisional),
        ("2xx", &State::success),
        ("3xx-6xx", &State::failure),
        ("cancel", &State::cancel),
        ("give up", &State::give_up),
        ("timer A, first", &|state, timing| state.timer_a(timing, 1)),
        ("timer A, sixth", &|state, timing| state.timer_a(timing, 6)),
        ("timer B", &|state, _| state.timer_b()),
        ("cancel wait", &|state, _| state.cancel_wait()),
        ("timer D", &|state, _| state.timer_d()),
        ("timer M", &|state, _| state.timer_m()),
    ];
    insta::assert_snapshot!(
        "client_invite",
        start(State::start) + &matrix(&states, &events)
    );
}

#[test]
fn client_non_invite_answers_every_event_in_every_state() {
    use client_non_invite::State;
    let events: [Reaction<'_, State>; 6] = [
        ("1xx", &|state, _| state.provisional()),
        ("2xx-6xx", &State::final_response),
        ("timer E, first", &|state, timing| state.timer_e(timing, 1)),
        ("timer E, fourth", &|state, timing| state.timer_e(timing, 4)),
        ("timer F", &|state, _| state.timer_f()),
        ("timer K", &|state, _| state.timer_k()),
    ];
    let states = [State::Trying, State::Proceeding, State::Completed];
    insta::assert_snapshot!(
        "client_non_invite",
        start(State::start) + &matrix(&states, &events)
    );
}

#[test]
fn server_invite_answers_every_event_in_every_state() {
    use server_invite::State;
    let events: [Reaction<'_, State>; 10] = [
        ("INVITE", &|state, _| state.invite()),
        ("ACK", &State::ack),
        ("user 1xx", &State::provisional),
        ("user 2xx", &State::success),
        ("user 3xx-6xx", &State::failure),
        ("timer G, first", &|state, timing| state.timer_g(timing, 1)),
        ("timer G, fourth", &|state, timing| state.timer_g(timing, 4)),
        ("timer H", &|state, _| state.timer_h()),
        ("timer I", &|state, _| state.timer_i()),
        ("timer L", &|state, _| state.timer_l()),
    ];
    let states = [
        State::Proceeding,
        State::Completed,
        State::Confirmed,
        State::Accepted,
    ];
    let initial = format!("start\n  {:?}\n\n", State::INITIAL);
    insta::assert_snapshot!("server_invite", initial + &matrix(&states, &events));
}

#[test]
fn server_non_invite_answers_every_event_in_every_state() {
    use server_non_invite::State;
    let events: [Reaction<'_, State>; 5] = [
        ("request", &|state, _| state.request()),
        ("user 1xx", &State::provisional),
        ("user 2xx-6xx", &State::final_response),
        ("user is silent", &State::silence),
        ("timer J", &|state, _| state.timer_j()),
    ];
    let states = [State::Trying, State::Proceeding, State::Completed];
    let initial = format!("start\n  {:?}\n\n", State::INITIAL);
    insta::assert_snapshot!("server_non_invite", initial + &matrix(&states, &events));
}
