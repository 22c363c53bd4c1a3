//! A server with a fixed service rate, under virtual time: its goodput at loads above this rate.

use super::{Backlog, OverloadSettings, Shed, Taken, Urgency};
use crate::flow::{Flow, ListenerId};
use crate::node::Received;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// Cost of serving a call, whose messages all cost the same, and cost of refusing or dropping a request, in microseconds.
const SERVICE: u64 = 480;
const MESSAGES: u64 = 8;
const REFUSAL: u64 = 10;

/// Callers that call once, retransmit their request by Timer A, and give up when they are refused.
struct World {
    backlog: Backlog,
    now: u64,
    /// Requests in flight by arrival time and number.
    due: BTreeMap<(u64, u32), Caller>,
    /// Answered calls: when each began and how long it took.
    served: Vec<(u64, u64)>,
    refused: u64,
    settled: Vec<bool>,
    /// The server runs for only this long in every 100 ms.
    quota: u64,
}

#[derive(Clone, Copy)]
struct Caller {
    at: u64,
    call: u32,
    begun: u64,
    wait: u64,
}

fn time(micros: u64) -> Time {
    Time::from_unix_seconds(1_800_000_000) + Duration::from_micros(micros)
}

fn received(arrived: Time, bytes: &[u8]) -> Received<'_> {
    Received {
        arrived,
        flow: Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into()),
        bytes,
        handed_over: false,
        over_our_connection: false,
    }
}

impl World {
    /// Creates calls at `rate` per second from `from` until `until`, in microseconds.
    fn new(quota: u64, loads: &[(u64, u64, u64)]) -> Self {
        let mut due = BTreeMap::new();
        for (rate, from, until) in loads {
            for place in 0..rate * (until - from) / SECOND {
                let begun = from + place * SECOND / rate;
                let call = u32::try_from(due.len()).expect("some thousands");
                let caller = Caller {
                    at: begun,
                    call,
                    begun,
                    wait: SECOND / 2,
                };
                due.insert((begun, call), caller);
            }
        }
        Self {
            backlog: Backlog::new(&OverloadSettings::default()),
            now: 0,
            served: Vec::new(),
            refused: 0,
            settled: vec![false; due.len()],
            due,
            quota,
        }
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.arrive();
            let taken = self.backlog.take(time(self.now));
            match taken {
                Some(Taken::Serve(message)) => {
                    self.work(SERVICE / MESSAGES);
                    self.answer(message.received().bytes);
                }
                Some(Taken::Shed(message, reason)) => {
                    self.work(REFUSAL);
                    if reason == Shed::Refused {
                        let (call, _) = read(message.received().bytes);
                        self.settled[call] = true;
                        self.refused += 1;
                    }
                }
                None => self.work(100),
            }
            self.backlog.observe(time(self.now));
        }
    }

    /// Answers a request; the other messages of its call follow.
    fn answer(&mut self, bytes: &[u8]) {
        let (call, begun) = read(bytes);
        if !std::mem::replace(&mut self.settled[call], true) {
            self.served.push((begun, self.now - begun));
            for _ in 1..MESSAGES {
                let message = received(time(self.now), bytes);
                self.backlog.push(Urgency::First, message, false, |_, _| ());
            }
        }
    }

    /// Advances time, with the stops that the quota causes.
    fn work(&mut self, micros: u64) {
        self.now += micros;
        if self.now % (100 * MILLISECOND) >= self.quota {
            self.now = self.now.next_multiple_of(100 * MILLISECOND);
        }
    }

    fn arrive(&mut self) {
        let later = self.due.split_off(&(self.now + 1, 0));
        for caller in std::mem::replace(&mut self.due, later).into_values() {
            let call = caller.call as usize;
            if self.settled[call] || caller.at > caller.begun + 32 * SECOND {
                continue;
            }
            let bytes = [
                u64::from(caller.call).to_ne_bytes(),
                caller.begun.to_ne_bytes(),
            ]
            .concat();
            let mut dropped = 0;
            let message = received(time(caller.at), &bytes);
            self.backlog
                .push(Urgency::New, message, false, |_, _| dropped += 1);
            assert_eq!(dropped, 0, "8 MiB are enough");
            let again = Caller {
                at: caller.at + caller.wait,
                wait: caller.wait * 2,
                ..caller
            };
            self.due.insert((again.at, caller.call), again);
        }
    }

    /// Calls per second among those that began in this period and were answered, and the longest time to an answer.
    fn goodput(&self, from: u64, until: u64) -> (u64, u64) {
        let of_time = |begun: &u64| (from..until).contains(begun);
        let served = self.served.iter().filter(|(begun, _)| of_time(begun));
        let longest = served.clone().map(|(_, took)| *took).max();
        let count = served.count() as u64;
        (count * SECOND / (until - from), longest.unwrap_or(0))
    }
}

fn read(bytes: &[u8]) -> (usize, u64) {
    let number = |place: usize| {
        let bytes = bytes.get(place..place + 8).expect("two numbers");
        u64::from_ne_bytes(bytes.try_into().expect("eight octets"))
    };
    let call = usize::try_from(number(0)).expect("a place");
    (call, number(8))
}

/// The whole CPU, and a fifth of it in slices of 100 ms.
const QUOTAS: [u64; 2] = [100 * MILLISECOND, 20 * MILLISECOND];

fn capacity(quota: u64) -> u64 {
    SECOND / SERVICE * quota / (100 * MILLISECOND)
}

#[test]
fn goodput_stays_at_nine_tenths_of_the_capacity_beyond_it() {
    for quota in QUOTAS {
        for tenths in [15, 20, 30] {
            let rate = capacity(quota) * tenths / 10;
            let mut world = World::new(quota, &[(rate, 0, 12 * SECOND)]);
            world.run_until(12 * SECOND);
            let (goodput, longest) = world.goodput(2 * SECOND, 11 * SECOND);
            assert!(
                goodput * 10 >= capacity(quota) * 9,
                "{goodput} of {} at {tenths}",
                capacity(quota)
            );
            assert!(longest <= 600 * MILLISECOND, "{longest} at {tenths}");
        }
    }
}

#[test]
fn a_burst_of_100_milliseconds_is_served_whole() {
    for quota in QUOTAS {
        let rate = capacity(quota);
        let burst = (rate * 10, 3 * SECOND, 3 * SECOND + 10 * MILLISECOND);
        let mut world = World::new(quota, &[(rate / 2, 0, 6 * SECOND), burst]);
        world.run_until(7 * SECOND);
        assert_eq!(world.refused, 0);
        assert_eq!(world.served.len(), world.settled.len());
    }
}

#[test]
fn a_second_after_the_overload_nothing_is_refused_and_all_is_quick() {
    for quota in QUOTAS {
        let rate = capacity(quota);
        let end = 8 * SECOND;
        let calm = (rate / 2, end, end + 4 * SECOND);
        let mut world = World::new(quota, &[(rate * 3, 0, end), calm]);
        world.run_until(end + SECOND);
        assert!(!world.backlog.is_overloaded());
        let refused = world.refused;
        world.run_until(end + 4 * SECOND);
        assert_eq!(world.refused, refused);
        let (goodput, longest) = world.goodput(end + SECOND, end + 3 * SECOND);
        assert_eq!(goodput, rate / 2);
        assert!(longest <= 150 * MILLISECOND, "{longest}");
    }
}

fn backlog() -> Backlog {
    Backlog::new(&OverloadSettings {
        most_bytes: 4_000,
        ..OverloadSettings::default()
    })
}

fn push(backlog: &mut Backlog, urgency: Urgency, at: u64, text: &str) -> Vec<String> {
    let mut shed = Vec::new();
    let message = received(time(at), text.as_bytes());
    backlog.push(urgency, message, false, |waiting, reason| {
        assert_eq!(reason, Shed::NoRoom);
        shed.push(text_of(waiting.received()));
    });
    shed
}

fn text_of(message: Received<'_>) -> String {
    String::from_utf8_lossy(message.bytes).into_owned()
}

/// Takes all messages; returns what is served and what is shed, in order.
fn take_all(backlog: &mut Backlog, now: u64) -> Vec<String> {
    let mut taken = Vec::new();
    while let Some(next) = backlog.take(time(now)) {
        taken.push(match next {
            Taken::Serve(message) => text_of(message.received()),
            Taken::Shed(message, reason) => {
                format!("{} {}", reason.label(), text_of(message.received()))
            }
        });
    }
    assert!(backlog.is_empty() && backlog.bytes() == 0);
    taken
}

#[test]
fn calls_that_exist_come_before_proven_requests_and_those_before_new_ones() {
    let mut backlog = backlog();
    for (urgency, text) in [
        (Urgency::New, "n1"),
        (Urgency::Proven, "p1"),
        (Urgency::First, "f1"),
        (Urgency::New, "n2"),
        (Urgency::Proven, "p2"),
        (Urgency::First, "f2"),
    ] {
        assert!(push(&mut backlog, urgency, 0, text).is_empty());
    }
    let expected = ["f1", "f2", "p1", "p2", "n1", "n2"];
    assert_eq!(take_all(&mut backlog, 1), expected);
}

#[test]
fn a_flood_of_credentials_leaves_a_share_to_new_requests() {
    let mut backlog = Backlog::new(&OverloadSettings::default());
    for _ in 0..100 {
        push(&mut backlog, Urgency::Proven, 0, "p");
        push(&mut backlog, Urgency::New, 0, "n");
    }
    let taken = take_all(&mut backlog, 1);
    let new = taken.iter().take(90).filter(|text| *text == "n").count();
    assert_eq!(new, 10);
}

#[test]
fn a_flood_of_made_up_tags_leaves_a_share_to_new_calls() {
    let mut backlog = Backlog::new(&OverloadSettings::default());
    for _ in 0..100 {
        push(&mut backlog, Urgency::First, 0, "f");
        push(&mut backlog, Urgency::New, 0, "n");
    }
    let taken = take_all(&mut backlog, 1);
    let new = taken.iter().take(90).filter(|text| *text == "n").count();
    assert_eq!(new, 10);
    assert_eq!(taken.len(), 200, "and nothing is lost");
}

#[test]
fn requests_make_way_for_newer_ones_and_calls_that_exist_have_room_of_their_own() {
    let mut backlog = backlog();
    let text = |name: &str| name.repeat(500);
    assert!(push(&mut backlog, Urgency::Proven, 0, &text("p")).is_empty());
    assert!(push(&mut backlog, Urgency::New, 0, &text("m")).is_empty());
    assert!(push(&mut backlog, Urgency::New, 0, &text("n")).is_empty());
    let shed = push(&mut backlog, Urgency::Proven, 0, &text("q"));
    assert_eq!(shed, [text("m")]);
    for _ in 0..4 {
        assert!(backlog.has_room());
        assert!(push(&mut backlog, Urgency::First, 0, &text("f")).is_empty());
    }
    assert!(!backlog.has_room());
    assert_eq!(take_all(&mut backlog, 1).len(), 7);
}

fn overloaded() -> Backlog {
    let mut backlog = Backlog::new(&OverloadSettings::default());
    push(&mut backlog, Urgency::New, 0, "old");
    for step in 0..60 {
        backlog.observe(time(SECOND + step * 5 * MILLISECOND));
    }
    assert!(backlog.is_overloaded());
    backlog
}

#[test]
fn in_overload_the_newest_goes_first_and_what_is_too_old_gets_no_work() {
    let now = 2 * SECOND;
    let mut backlog = overloaded();
    for (age, text) in [(300, "late"), (200, "waiting"), (0, "fresh")] {
        push(&mut backlog, Urgency::New, now - age * MILLISECOND, text);
    }
    push(&mut backlog, Urgency::First, 0, "bye");
    let expected = ["bye", "too_old old", "refused late", "fresh", "waiting"];
    assert_eq!(take_all(&mut backlog, now), expected);
}

#[test]
fn in_overload_one_source_takes_a_quarter_of_the_room_for_requests() {
    let now = 2 * SECOND;
    let mut backlog = overloaded();
    let text = "x".repeat(1_000);
    let pushed = |backlog: &mut Backlog, host: [u8; 4]| {
        let flow = Flow::to(ListenerId(0), (host, 5060).into());
        let mut shed = 0;
        for _ in 0..2_000 {
            let message = Received {
                flow,
                ..received(time(now), text.as_bytes())
            };
            backlog.push(Urgency::Proven, message, false, |_, _| shed += 1);
        }
        2_000 - shed
    };
    assert_eq!(pushed(&mut backlog, [192, 0, 2, 2]), (1 << 20) / 1_128);
    assert_eq!(pushed(&mut backlog, [192, 0, 2, 3]), (1 << 20) / 1_128);
    // Messages that leave make room.
    let taken = take_all(&mut backlog, now);
    assert_eq!(taken.len(), 2 * ((1 << 20) / 1_128) + 1);
    assert!(pushed(&mut backlog, [192, 0, 2, 2]) > 0);
}

/// Over UDP, so that a refusal does not cross with the retransmission.
#[test]
fn shortly_before_its_sender_sends_it_again_a_request_is_dropped_and_not_refused() {
    let now = 2 * SECOND;
    let mut backlog = overloaded();
    for (age, text) in [(450, "crossing"), (300, "late")] {
        push(&mut backlog, Urgency::New, now - age * MILLISECOND, text);
    }
    let expected = ["too_old old", "too_old crossing", "refused late"];
    assert_eq!(take_all(&mut backlog, now), expected);
}

#[test]
fn over_a_stream_every_request_is_answered_however_old_it_is() {
    let mut backlog = overloaded();
    let message = received(time(0), b"stream");
    backlog.push(Urgency::New, message, true, |_, _| {});
    let expected = ["too_old old", "refused stream"];
    assert_eq!(take_all(&mut backlog, 2 * SECOND), expected);
}

#[test]
fn refusals_are_bounded_by_what_is_served() {
    let now = 10 * SECOND;
    let mut backlog = overloaded();
    for _ in 0..3_000 {
        push(&mut backlog, Urgency::New, now - 300 * MILLISECOND, "late");
    }
    let taken = take_all(&mut backlog, now);
    let count = |what: &str| taken.iter().filter(|it| it.starts_with(what)).count();
    assert_eq!((count("refused"), count("too_many")), (1_000, 2_000));
}
