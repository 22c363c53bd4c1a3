//! The simulator drives any node. These small nodes show how the world treats them.

use sip_message::{Message, Method, ResponseWriter};
use sip_simulator::{
    Account, Action, BoundContact, Bounds, CallPlan, Census, ControlManners, Facts, Fault,
    HostFacts, Invariant, Machine, Observation, Party, Profile, Violation, World, host_address,
    phone_address,
};
use sip_transport::{Flow, Input, Node, Output, Received, Time};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How a [`Small`] node handles requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Ignores them.
    Swallows,
    /// Asks the control plane, and responds with 200 after its answer.
    Asks,
    /// Worker 0 hands all requests over to worker 1, which responds with 200.
    HandsOver,
    /// Wakes up every second, and counts.
    Wakes,
}

struct Small {
    habit: Habit,
    worker: usize,
    waiting: Vec<(Flow, Vec<u8>)>,
    handed_over: Vec<Vec<u8>>,
    next: Time,
    woken: Vec<Time>,
}

fn okay(flow: Flow, bytes: &[u8], output: &mut Output<usize>) {
    if let Ok(request) = Message::parse(bytes)
        && request.is_request()
        && request.method() != Method::Ack
    {
        output.send(flow, |into| {
            ResponseWriter::begin(into, &request, flow.remote, 200, "OK", Some(b"small")).finish();
        });
    }
}

impl Node for Small {
    type Question = usize;
    type Record = std::convert::Infallible;
    type Control = usize;

    fn handle(&mut self, now: Time, input: Input<'_, usize>, output: &mut Output<usize>) {
        let Received {
            flow,
            bytes,
            handed_over,
            ..
        } = match input {
            Input::Received(message) => message,
            Input::Control(answer) => {
                let (flow, bytes) = &self.waiting[answer];
                return okay(*flow, bytes, output);
            }
            Input::Undeliverable(_) | Input::ConnectionEnded(_) => return,
        };
        if handed_over {
            self.handed_over.push(bytes.to_vec());
            return okay(flow, bytes, output);
        }
        match self.habit {
            Habit::Swallows | Habit::Wakes => {}
            Habit::Asks => {
                output.ask(self.waiting.len());
                self.waiting.push((flow, bytes.to_vec()));
            }
            Habit::HandsOver if self.worker == 0 => output.hand_over(1, now, flow, bytes),
            Habit::HandsOver => okay(flow, bytes, output),
        }
    }

    fn expire(&mut self, now: Time, _: &mut Output<usize>) {
        self.woken.push(now);
        self.next = now + Duration::from_secs(1);
    }

    fn next_deadline(&self) -> Option<Time> {
        (self.habit == Habit::Wakes).then_some(self.next)
    }
}

struct Smalls {
    habit: Habit,
    workers: usize,
}

impl Machine for Smalls {
    type Node = Small;

    fn facts(&self) -> HostFacts {
        let most = u64::MAX;
        HostFacts {
            domain: "host0.test".to_owned(),
            listeners: vec![host_address(0, false)],
            outbound: None,
            relays: false,
            challenged: Vec::new(),
            description_mark: None,
            session_timers: false,
            bounds: Bounds {
                servers: most,
                clients: most,
                contexts: most,
                dialogs: most,
                parked: most,
                held_bytes: u64::MAX,
                bindings: most,
                fan_out: 1,
                t1: Duration::from_millis(500),
                invite_answered: Duration::from_secs(32),
                other_answered: Duration::from_secs(32),
                question_deadline: Duration::from_secs(5),
                response_waits: Duration::ZERO,
                write_behind: Duration::ZERO,
                save_window: Duration::ZERO,
                dialog_lifetime: Duration::ZERO,
            },
        }
    }

    fn boot(&mut self, now: Time, _: [u8; 32]) -> Vec<Small> {
        let small = |worker| Small {
            habit: self.habit,
            worker,
            waiting: Vec::new(),
            handed_over: Vec::new(),
            next: now + Duration::from_secs(1),
            woken: Vec::new(),
        };
        (0..self.workers).map(small).collect()
    }

    fn crash(&mut self, _: Time) {}

    fn reply(&mut self, _: Time, question: &usize, _: bool) -> usize {
        *question
    }

    fn housekeeping(&mut self, _: Time, _: &mut Vec<(usize, usize)>) {}

    fn census(&self, _: &Small) -> Census {
        Census::default()
    }

    fn bindings(&self) -> Account {
        Account::default()
    }

    fn bound_contacts(&self, _: Time) -> Vec<BoundContact> {
        Vec::new()
    }
}

/// The messages that phones have sent: milliseconds since the start, and the Call-ID.
type Sent = Rc<RefCell<Vec<(u128, String)>>>;

/// An invariant without a rule, which only records.
#[derive(Debug)]
struct Recorder {
    start: Time,
    sent: Sent,
}

impl Invariant for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn observe(
        &mut self,
        _: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        if let Observation::Sent {
            from: Party::Phone(_),
            seen: Some(seen),
            ..
        } = observation
        {
            let call_id = String::from_utf8_lossy(seen.call_id).into_owned();
            self.sent
                .borrow_mut()
                .push((now.saturating_since(self.start).as_millis(), call_id));
        }
        Ok(())
    }
}

fn world(
    habit: Habit,
    workers: usize,
    manners: ControlManners,
    phones: usize,
) -> (World<Smalls>, Sent) {
    let start = Time::from_unix_seconds(1_750_000_000);
    let sent = Sent::default();
    let recorder = Recorder {
        start,
        sent: Rc::clone(&sent),
    };
    let mut world = World::new(1, start, vec![Box::new(recorder)]);
    world.add_host(Smalls { habit, workers }, manners);
    for phone in 0..phones {
        let user = format!("user{phone}");
        let profile = Profile::new(
            &user,
            "host0.test",
            phone_address(phone, false),
            host_address(0, false),
        );
        world.add_phone(profile, 0, true);
    }
    (world, sent)
}

fn options() -> Action {
    Action::Ask("OPTIONS", "sip:host0.test".to_owned())
}

#[test]
fn a_phone_without_a_response_retransmits_as_in_section_17_and_gives_up() {
    let (mut world, sent) = world(Habit::Swallows, 1, ControlManners::PROMPT, 1);
    world.perform(
        0,
        Action::Call(CallPlan {
            to: "sip:bob@host0.test".to_owned(),
            patience: Duration::from_secs(60),
            talk: Duration::from_secs(1),
            renegotiates: false,
        }),
    );
    world.run_for(Duration::from_secs(40));
    let times = |sent: &Sent| {
        sent.borrow_mut()
            .drain(..)
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        times(&sent),
        [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500],
        "timers A and B"
    );
    assert_eq!(world.statistics().failed.get(&408), Some(&1));
    world.perform(0, options());
    world.run_for(Duration::from_secs(40));
    let times: Vec<_> = times(&sent).into_iter().map(|at| at - 40_000).collect();
    let expected = [
        0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    assert_eq!(times, expected, "timers E and F");
    assert_eq!(world.statistics().timed_out, 2);
}

#[test]
fn a_question_is_answered_after_the_delay_twice_or_never_as_the_manners_say() {
    let slow = ControlManners {
        delay: (Duration::from_millis(300), Duration::from_millis(300)),
        ..ControlManners::PROMPT
    };
    let (mut world, sent) = world(Habit::Asks, 1, slow, 1);
    world.perform(0, options());
    world.run_for(Duration::from_millis(301));
    assert!(
        world.statistics().finals.is_empty(),
        "network and control plane take their time"
    );
    world.run_for(Duration::from_millis(2));
    assert_eq!(world.statistics().finals.get(&200), Some(&1));
    assert_eq!(sent.borrow().len(), 1);

    let silent = ControlManners {
        ignored: 1000,
        ..ControlManners::PROMPT
    };
    let (mut world, _) = self::world(Habit::Asks, 1, silent, 1);
    world.perform(0, options());
    world.run_for(Duration::from_secs(40));
    assert_eq!(world.statistics().timed_out, 1);

    let doubled = ControlManners {
        doubled: 1000,
        ..ControlManners::PROMPT
    };
    let (mut world, _) = self::world(Habit::Asks, 1, doubled, 1);
    world.perform(0, options());
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.statistics().sent, 3, "one request, two answers");
}

#[test]
fn what_a_worker_hands_over_reaches_its_sibling_in_order_and_is_answered_from_there() {
    let (mut world, sent) = world(Habit::HandsOver, 2, ControlManners::PROMPT, 8);
    for phone in 0..8 {
        for burst in 0..5 {
            world.perform_in(Duration::from_micros(burst), phone, options());
        }
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.statistics().finals.get(&200), Some(&40));
    let nodes: Vec<_> = world.nodes(0).collect();
    assert!(nodes[0].handed_over.is_empty());
    let call_id = |bytes: &Vec<u8>| {
        let message = Message::parse(bytes).ok()?;
        Some(String::from_utf8_lossy(message.call_id()?).into_owned())
    };
    let handed_over: Vec<_> = nodes[1].handed_over.iter().filter_map(call_id).collect();
    assert!(handed_over.len() >= 5, "the kernel gave worker 0 nobody");
    // In calm weather everything arrives in the order in which it was sent.
    let sent = sent
        .borrow()
        .clone()
        .into_iter()
        .map(|(_, call_id)| call_id);
    let in_order: Vec<_> = sent
        .filter(|call_id| handed_over.contains(call_id))
        .collect();
    assert_eq!(handed_over, in_order);
}

#[test]
fn a_deadline_is_met_late_by_little_and_never_early_unless_the_machine_stands_still() {
    let (mut world, _) = world(Habit::Wakes, 1, ControlManners::PROMPT, 0);
    world.fault_in(
        Duration::from_millis(4_500),
        Fault::Stall(0, Duration::from_secs(3)),
    );
    let start = world.now();
    world.run_for(Duration::from_secs(10));
    let woken: Vec<_> = world.nodes(0).next().unwrap().woken.clone();
    let gaps: Vec<_> = woken
        .iter()
        .scan(start, |before, at| {
            Some((*at - std::mem::replace(before, *at)).as_millis())
        })
        .collect();
    let late = gaps.iter().filter(|gap| **gap > 1_002).count();
    assert!(gaps.iter().all(|gap| *gap >= 1_000), "{gaps:?}");
    assert_eq!(late, 1, "only while it stood still: {gaps:?}");
    assert!(gaps[4] > 2_000, "{gaps:?}");
}

#[test]
fn what_arrives_at_a_machine_that_is_down_is_gone_and_what_it_had_asked_is_forgotten() {
    let slow = ControlManners {
        delay: (Duration::from_millis(300), Duration::from_millis(300)),
        ..ControlManners::PROMPT
    };
    let (mut world, sent) = world(Habit::Asks, 1, slow, 1);
    world.perform(0, options());
    world.fault_in(
        Duration::from_millis(100),
        Fault::Crash(0, Duration::from_secs(2)),
    );
    world.run_for(Duration::from_secs(3));
    assert!(world.statistics().finals.is_empty());
    world.run_for(Duration::from_secs(5));
    assert_eq!(
        world.statistics().finals.get(&200),
        Some(&1),
        "a retransmission found the new life"
    );
    assert_eq!(sent.borrow().len(), 4);
    assert_eq!(world.nodes(0).next().unwrap().waiting.len(), 1);
}
