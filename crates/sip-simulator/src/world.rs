//! The world: machines, phones and the network between them, driven by one clock in one thread.
use crate::clock::Clock;
use crate::dice::Dice;
use crate::host::{AnswerOf, ControlManners, Host, Machine, QuestionOf};
use crate::network::{Fate, Network, Weather};
use crate::observe::{
    BoundContact, Cause, Facts, Invariant, Observation, Party, PhoneFacts, Round, Seen, Violation,
};
use crate::phone::{Action, Mischief, Phone, PhoneEvent, PhoneOutput, Profile};
use crate::statistics::Statistics;
use crate::trace::{Mark, Trace};
use sip_transport::{Flow, ListenerId, Node, Output, Time};
use std::collections::BTreeMap;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How often a machine's control plane saves and sweeps.
const HOUSEKEEPING: Duration = Duration::from_millis(250);
/// A message of a sibling worker is read this late at most.
const HAND_OVER: Duration = Duration::from_micros(400);
/// How long the phones may take to come to rest.
const REST: Duration = Duration::from_secs(900);
/// After that long without traffic nothing may be left.
const QUIET: Duration = Duration::from_secs(600);

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing reaches or leaves a phone for so long.
    CutOff(usize, Duration),
    /// A machine loses its power and starts again after so long.
    Crash(usize, Duration),
    /// A machine stands still for so long, and then finds everything that has arrived meanwhile.
    Stall(usize, Duration),
    /// A machine's control plane answers nothing for so long.
    ControlAway(usize, Duration),
    /// The weather changes.
    Weather(Weather),
}

enum Event<M: Machine> {
    Datagram {
        destination: SocketAddr,
        source: SocketAddr,
        bytes: Rc<[u8]>,
    },
    HandOver {
        host: usize,
        life: u32,
        worker: usize,
    },
    Question {
        host: usize,
        life: u32,
        worker: usize,
        number: u64,
        question: QuestionOf<M>,
    },
    Answer {
        host: usize,
        life: u32,
        worker: usize,
        number: Option<u64>,
        answer: AnswerOf<M>,
    },
    WakeWorker {
        host: usize,
        life: u32,
        worker: usize,
        at: Time,
    },
    WakePhone {
        phone: usize,
        at: Time,
    },
    Act {
        phone: usize,
        action: Action,
    },
    Fault(Fault),
    Boot {
        host: usize,
    },
    Housekeeping {
        host: usize,
        life: u32,
    },
}

/// A world. Build it with [`World::new`], [`World::add_host`] and [`World::add_phone`], tell its phones what to do, and
/// let time pass.
pub struct World<M: Machine> {
    clock: Clock<Event<M>>,
    dice: Dice,
    network: Network,
    hosts: Vec<Host<M>>,
    phones: Vec<Phone>,
    /// When each phone will be woken.
    wakes: Vec<Option<Time>>,
    directory: BTreeMap<SocketAddr, Party>,
    facts: Facts,
    invariants: Vec<Box<dyn Invariant>>,
    violation: Option<Violation>,
    trace: Trace,
    statistics: Statistics,
    questions: u64,
    in_flight: u64,
    /// The last request with credentials of each phone, by transaction.
    authorized: BTreeMap<usize, (u64, Rc<[u8]>)>,
    /// The last of them that was accepted, for whoever replays it. One that was lost would be new to the machine.
    overheard: Option<Rc<[u8]>>,
}

impl<M: Machine> World<M> {
    /// An empty world in calm weather, under the given invariants.
    pub fn new(seed: u64, start: Time, invariants: Vec<Box<dyn Invariant>>) -> Self {
        let dice = Dice::new(seed, "world");
        Self {
            clock: Clock::new(start),
            network: Network::new(dice.fork("network"), Weather::CALM),
            dice,
            hosts: Vec::new(),
            phones: Vec::new(),
            wakes: Vec::new(),
            directory: BTreeMap::new(),
            facts: Facts {
                lateness: Duration::from_secs(8),
                ..Facts::default()
            },
            invariants,
            violation: None,
            trace: Trace::new(start),
            statistics: Statistics::default(),
            questions: 0,
            in_flight: 0,
            authorized: BTreeMap::new(),
            overheard: None,
        }
    }

    /// Adds a machine and starts it. Returns its place.
    pub fn add_host(&mut self, machine: M, manners: ControlManners) -> usize {
        let index = self.hosts.len();
        let dice = self.dice.fork(&format!("host {index}"));
        let host = Host::new(machine, manners, dice, self.now());
        for listener in &host.facts.listeners {
            self.directory.insert(*listener, Party::Host(index));
        }
        self.facts.hosts.push(host.facts.clone());
        self.hosts.push(host);
        self.boot(index);
        index
    }

    /// Adds a phone of the machine `home`. Returns its place. `honest` phones keep to the protocol and own their credentials.
    pub fn add_phone(&mut self, profile: Profile, home: usize, honest: bool) -> usize {
        let index = self.phones.len();
        let address_of_record = profile.address_of_record();
        self.facts.phones.push(PhoneFacts {
            address_of_record,
            honest,
            home,
        });
        self.directory.insert(profile.address, Party::Phone(index));
        self.phones.push(Phone::new(
            profile,
            self.dice.fork(&format!("phone {index}")),
        ));
        self.wakes.push(None);
        index
    }

    /// The present.
    pub const fn now(&self) -> Time {
        self.clock.now()
    }

    /// A phone.
    pub fn phone(&self, phone: usize) -> &Phone {
        &self.phones[phone]
    }

    /// A machine.
    pub fn machine(&self, host: usize) -> &M {
        &self.hosts[host].machine
    }

    /// The nodes of a machine, one for each worker; none while it is down.
    pub fn nodes(&self, host: usize) -> impl Iterator<Item = &M::Node> {
        self.hosts[host].workers.iter().map(|worker| &worker.node)
    }

    /// What has been counted so far.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What has been seen so far.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The first rule that was broken. Time stands still after it.
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// From now on the weather is like that.
    pub const fn set_weather(&mut self, weather: Weather) {
        self.network.set_weather(weather);
    }

    /// Tells a phone to do something now.
    pub fn perform(&mut self, phone: usize, action: Action) {
        let now = self.now();
        self.clock.plan(now, Event::Act { phone, action });
    }

    /// Tells a phone to do something after a while.
    pub fn perform_in(&mut self, after: Duration, phone: usize, action: Action) {
        let at = self.now() + after;
        self.clock.plan(at, Event::Act { phone, action });
    }

    /// Lets something go wrong after a while.
    pub fn fault_in(&mut self, after: Duration, fault: Fault) {
        let at = self.now() + after;
        self.clock.plan(at, Event::Fault(fault));
    }

    /// An order to all workers of a machine, as its control plane would give it.
    pub fn order(&mut self, host: usize, order: impl Fn() -> AnswerOf<M>) {
        let (now, life) = (self.now(), self.hosts[host].life);
        for worker in 0..self.hosts[host].workers.len() {
            self.clock.plan(
                now,
                Event::Answer {
                    host,
                    life,
                    worker,
                    number: None,
                    answer: order(),
                },
            );
        }
    }

    /// Lets time pass, until a rule is broken.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.violation.is_none() {
            let Some(event) = self.clock.next_before(until) else {
                break;
            };
            self.happen(event);
        }
        self.clock.advance_to(until);
    }

    /// Ends all traffic and all faults, waits until the phones have come to rest and everything must have ended, and
    /// has the invariants that look at the end look at it.
    pub fn run_until_quiet(&mut self) {
        self.network.heal();
        for phone in 0..self.phones.len() {
            self.perform(phone, Action::Rest);
        }
        let deadline = self.now() + REST;
        self.run_for(Duration::from_secs(1));
        while self.violation.is_none() && !self.is_calm() {
            if self.now() >= deadline {
                self.violation = Some(self.restless());
            }
            self.run_for(Duration::from_secs(1));
        }
        self.look_at_the_end(false);
        self.run_for(QUIET);
        self.look_at_the_end(true);
    }

    /// Everything about the broken rule: what, and the last messages that led to it.
    pub fn report(&self, lines: usize) -> Option<String> {
        let violation = self.violation.as_ref()?;
        let call_id = violation.call_id.as_deref();
        let mut report = format!("{violation}\n\n");
        if call_id.is_some() {
            report += &format!(
                "Messages of that call:\n{}\n",
                self.trace.ladder(lines, call_id)
            );
        }
        report += &format!(
            "The last events of all:\n{}\n",
            self.trace.ladder(lines / 2, None)
        );
        if let Some(message) = self.trace.last_message(call_id) {
            report += &format!("The last message:\n{message}\n");
        }
        Some(report)
    }

    /// Panics with the report when a rule was broken.
    ///
    /// # Panics
    /// See above: for tests.
    pub fn expect_sound(&self) {
        if let Some(report) = self.report(80) {
            panic!("{report}");
        }
    }

    fn is_calm(&self) -> bool {
        let up = self.hosts.iter().all(Host::is_up);
        up && self.in_flight == 0
            && self
                .phones
                .iter()
                .all(|phone| !phone.is_alive() || phone.is_idle())
    }

    fn restless(&self) -> Violation {
        let busy = |phone: &Phone| phone.is_alive() && !phone.is_idle();
        let phones: Vec<_> = (0..self.phones.len())
            .filter(|index| busy(&self.phones[*index]))
            .collect();
        let what = format!(
            "phones {phones:?} have not come to rest {} s after the traffic ended",
            REST.as_secs()
        );
        crate::observe::violation("rest", what, None)
    }

    fn look_at_the_end(&mut self, quiet: bool) {
        if self.violation.is_some() {
            return;
        }
        let now = self.now();
        for host in 0..self.hosts.len() {
            let account = self.hosts[host].machine.bindings();
            self.observe(&Observation::Bindings { host, account });
        }
        let view = |host: &Host<M>| -> Vec<BoundContact> { host.machine.bound_contacts(now) };
        let bindings: Vec<_> = self.hosts.iter().map(view).collect();
        let bindings = &bindings[..];
        self.observe(&if quiet {
            Observation::Quiet { bindings }
        } else {
            Observation::Calm { bindings }
        });
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let now = self.clock.now();
        for invariant in &mut self.invariants {
            if let Err(violation) = invariant.observe(&self.facts, now, observation) {
                self.violation.get_or_insert(violation);
            }
        }
    }

    fn happen(&mut self, event: Event<M>) {
        match event {
            Event::Datagram {
                destination,
                source,
                bytes,
            } => self.arrive(destination, source, bytes),
            Event::HandOver { host, life, worker } => self.run_hand_over(host, life, worker),
            Event::Question {
                host,
                life,
                worker,
                number,
                question,
            } => {
                self.reply(host, life, worker, number, question);
            }
            Event::Answer {
                host,
                life,
                worker,
                number,
                answer,
            } => {
                self.run_answer(host, life, worker, number, answer);
            }
            Event::WakeWorker {
                host,
                life,
                worker,
                at,
            } => self.wake_worker(host, life, worker, at),
            Event::WakePhone { phone, at } => self.wake_phone(phone, at),
            Event::Act { phone, action } => self.act(phone, action),
            Event::Fault(fault) => self.go_wrong(fault),
            Event::Boot { host } => self.boot(host),
            Event::Housekeeping { host, life } => self.keep_house(host, life),
        }
    }
}

/// The network.
impl<M: Machine> World<M> {
    fn send(&mut self, from: Party, source: SocketAddr, destination: SocketAddr, bytes: &Rc<[u8]>) {
        let now = self.now();
        let to = self
            .directory
            .get(&destination)
            .copied()
            .unwrap_or(Party::Nobody);
        let seen = Seen::read(bytes);
        self.statistics.sent += 1;
        self.observe(&Observation::Sent {
            from,
            source,
            to,
            destination,
            seen: seen.as_ref(),
        });
        if let (Party::Host(_), Party::Phone(phone), Some(seen)) = (from, to, &seen) {
            self.overhear(phone, seen);
        }
        let fate = self.network.carry(now, source.ip(), destination.ip());
        let mark = match fate {
            Fate::Lost => Mark::Lost,
            Fate::CutOff => Mark::CutOff,
            Fate::Delivered(_, None) => Mark::Sent,
            Fate::Delivered(..) => Mark::SentTwice,
        };
        self.trace
            .datagram(now, mark, (from, source), (to, destination), bytes);
        let Fate::Delivered(first, second) = fate else {
            self.statistics.lost += 1;
            return;
        };
        for delay in [Some(first), second].into_iter().flatten() {
            self.in_flight += 1;
            let bytes = Rc::clone(bytes);
            self.clock.plan(
                now + delay,
                Event::Datagram {
                    destination,
                    source,
                    bytes,
                },
            );
        }
    }

    /// An answer that is neither a refusal nor a 100 shows that the credentials of its request were accepted.
    fn overhear(&mut self, phone: usize, response: &Seen<'_>) {
        let known = self
            .authorized
            .get(&phone)
            .filter(|(transaction, _)| *transaction == response.transaction());
        if let Some((_, bytes)) = known.filter(|_| (101..300).contains(&response.status)) {
            self.overheard = Some(Rc::clone(bytes));
        }
    }

    fn arrive(&mut self, destination: SocketAddr, source: SocketAddr, bytes: Rc<[u8]>) {
        let now = self.now();
        let to = self
            .directory
            .get(&destination)
            .copied()
            .unwrap_or(Party::Nobody);
        if let Party::Host(host) = to
            && self.hosts[host].stalled_until > now
        {
            let until = self.hosts[host].stalled_until;
            return self.clock.plan(
                until,
                Event::Datagram {
                    destination,
                    source,
                    bytes,
                },
            );
        }
        self.in_flight -= 1;
        let from = self
            .directory
            .get(&source)
            .copied()
            .unwrap_or(Party::Nobody);
        let hears = match to {
            Party::Host(host) => self.hosts[host].is_up(),
            Party::Phone(phone) => self.phones[phone].is_alive(),
            Party::Nobody => false,
        };
        let mark = if hears { Mark::Arrived } else { Mark::Unheard };
        self.trace
            .datagram(now, mark, (from, source), (to, destination), &bytes);
        if !hears {
            return;
        }
        let seen = Seen::read(&bytes);
        self.observe(&Observation::Delivered {
            from,
            source,
            to,
            seen: seen.as_ref(),
        });
        match to {
            Party::Host(host) => self.run_receive(host, source, destination, &bytes),
            Party::Phone(phone) => self.with_phone(phone, |phone, output| {
                phone.receive(now, source, &bytes, output)
            }),
            Party::Nobody => {}
        }
    }
}

/// The machines.
impl<M: Machine> World<M> {
    fn boot(&mut self, host: usize) {
        let now = self.now();
        self.hosts[host].boot(now);
        self.trace.note(now, Party::Host(host), "starts".to_owned());
        self.observe(&Observation::Booted { host });
        for worker in 0..self.hosts[host].workers.len() {
            self.plan_wake(host, worker);
        }
        let life = self.hosts[host].life;
        self.clock
            .plan(now + HOUSEKEEPING, Event::Housekeeping { host, life });
    }

    fn run_receive(
        &mut self,
        host: usize,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        let place = self.hosts[host]
            .facts
            .listeners
            .iter()
            .position(|listener| *listener == destination);
        let listener = ListenerId(
            place
                .and_then(|place| u16::try_from(place).ok())
                .unwrap_or(0),
        );
        let flow = Flow::datagram(listener, source);
        let worker = self.hosts[host].worker_for(source, destination);
        self.run(host, worker, Cause::Message, |node, now, output| {
            node.receive(now, flow, bytes, output)
        });
    }

    fn run_hand_over(&mut self, host: usize, life: u32, worker: usize) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        if self.hosts[host].stalled_until > self.now() {
            let until = self.hosts[host].stalled_until;
            return self
                .clock
                .plan(until, Event::HandOver { host, life, worker });
        }
        if let Some((flow, bytes)) = self.hosts[host].workers[worker].inbox.pop_front() {
            self.run(host, worker, Cause::Message, |node, now, output| {
                node.receive_handed_over(now, flow, &bytes, output);
            });
        }
    }

    fn run_answer(
        &mut self,
        host: usize,
        life: u32,
        worker: usize,
        number: Option<u64>,
        answer: AnswerOf<M>,
    ) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        if self.hosts[host].stalled_until > self.now() {
            let until = self.hosts[host].stalled_until;
            return self.clock.plan(
                until,
                Event::Answer {
                    host,
                    life,
                    worker,
                    number,
                    answer,
                },
            );
        }
        if let Some(number) = number {
            self.hosts[host].workers[worker].outstanding.remove(&number);
        }
        self.run(host, worker, Cause::Answer, |node, now, output| {
            node.answer(now, answer, output)
        });
    }

    fn wake_worker(&mut self, host: usize, life: u32, worker: usize, at: Time) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        let now = self.now();
        if self.hosts[host].workers[worker].wake != Some(at) {
            return; // An earlier wake-up took its place.
        }
        if self.hosts[host].stalled_until > now {
            let until = self.hosts[host].stalled_until;
            self.hosts[host].workers[worker].wake = Some(until);
            return self.clock.plan(
                until,
                Event::WakeWorker {
                    host,
                    life,
                    worker,
                    at: until,
                },
            );
        }
        self.hosts[host].workers[worker].wake = None;
        if self.hosts[host].workers[worker]
            .node
            .next_deadline()
            .is_some_and(|due| due <= now)
        {
            self.run(host, worker, Cause::Deadline, |node, now, output| {
                node.expire(now, output)
            });
        } else {
            self.plan_wake(host, worker);
        }
    }

    /// Runs a worker once and carries out what it puts out.
    fn run(
        &mut self,
        host: usize,
        worker: usize,
        cause: Cause,
        act: impl FnOnce(&mut M::Node, Time, &mut Output<QuestionOf<M>>),
    ) {
        let now = self.now();
        let running = &mut self.hosts[host].workers[worker];
        let mut output = mem::take(&mut running.output);
        act(&mut running.node, now, &mut output);
        let round = Round {
            cause,
            sent: output.outgoing().len(),
            longest: output
                .outgoing()
                .iter()
                .map(|outgoing| outgoing.range.len())
                .max()
                .unwrap_or(0),
            handed_over: output.hand_overs().len(),
            asked: output.questions().len(),
        };
        self.carry_out(host, worker, &mut output);
        output.clear();
        let running = &mut self.hosts[host].workers[worker];
        running.output = output;
        running.outstanding.retain(|_, until| *until > now);
        let outstanding = running.outstanding.len();
        let census = self.hosts[host]
            .machine
            .census(&self.hosts[host].workers[worker].node);
        self.observe(&Observation::Ran {
            host,
            worker,
            round,
            census,
            outstanding,
        });
        self.plan_wake(host, worker);
    }

    fn carry_out(&mut self, host: usize, worker: usize, output: &mut Output<QuestionOf<M>>) {
        let now = self.now();
        for outgoing in output.outgoing() {
            let listener = usize::from(outgoing.flow.listener.0);
            let source = self.hosts[host].facts.listeners.get(listener).copied();
            let Some(source) = source else {
                let what =
                    format!("a message was sent through listener {listener}, which there is not");
                self.violation
                    .get_or_insert(crate::observe::violation("bounded", what, None));
                continue;
            };
            let bytes: Rc<[u8]> = output.written(outgoing.range.clone()).into();
            self.send(Party::Host(host), source, outgoing.flow.remote, &bytes);
        }
        let life = self.hosts[host].life;
        for hand_over in output.hand_overs() {
            let sibling = usize::from(hand_over.worker);
            let bytes: Rc<[u8]> = output.written(hand_over.range.clone()).into();
            if sibling == worker || sibling >= self.hosts[host].workers.len() {
                let what = format!("worker {worker} handed a message over to worker {sibling}");
                self.violation
                    .get_or_insert(crate::observe::violation("bounded", what, None));
                continue;
            }
            let delay = self.hosts[host].dice.span(Duration::ZERO, HAND_OVER);
            self.hosts[host].workers[sibling]
                .inbox
                .push_back((hand_over.flow, bytes));
            self.clock.plan(
                now + delay,
                Event::HandOver {
                    host,
                    life,
                    worker: sibling,
                },
            );
        }
        for question in output.drain_questions() {
            self.questions += 1;
            self.statistics.questions += 1;
            let number = self.questions;
            let hosted = &mut self.hosts[host];
            let until = now + hosted.facts.bounds.question_deadline;
            hosted.workers[worker].outstanding.insert(number, until);
            let (least, most) = hosted.manners.delay;
            let delay = hosted.dice.span(least, most);
            self.clock.plan(
                now + delay / 2,
                Event::Question {
                    host,
                    life,
                    worker,
                    number,
                    question,
                },
            );
        }
    }

    /// The control plane comes to a question.
    fn reply(
        &mut self,
        host: usize,
        life: u32,
        worker: usize,
        number: u64,
        question: QuestionOf<M>,
    ) {
        let now = self.now();
        let hosted = &mut self.hosts[host];
        if hosted.life != life || !hosted.is_up() {
            return;
        }
        if hosted.control_away_until > now {
            // What piles up is answered late, or has been forgotten.
            if hosted.dice.chance(500) {
                let until = hosted.control_away_until;
                self.clock.plan(
                    until,
                    Event::Question {
                        host,
                        life,
                        worker,
                        number,
                        question,
                    },
                );
            }
            return;
        }
        if hosted.dice.chance(hosted.manners.ignored) {
            return;
        }
        let copies = if hosted.dice.chance(hosted.manners.doubled) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let failing = hosted.dice.chance(hosted.manners.failing);
            let answer = hosted.machine.reply(now, &question, failing);
            let (least, most) = hosted.manners.delay;
            let delay = hosted.dice.span(least, most) / 2;
            self.clock.plan(
                now + delay,
                Event::Answer {
                    host,
                    life,
                    worker,
                    number: Some(number),
                    answer,
                },
            );
        }
    }

    fn plan_wake(&mut self, host: usize, worker: usize) {
        let now = self.now();
        let hosted = &mut self.hosts[host];
        let running = &mut hosted.workers[worker];
        let Some(deadline) = running.node.next_deadline() else {
            return;
        };
        let deadline = deadline.max(now);
        if running.wake.is_some_and(|planned| planned <= deadline) {
            return;
        }
        // An operating system wakes late, never early.
        let at = deadline + hosted.dice.span(Duration::ZERO, Duration::from_millis(2));
        if running.wake.is_none_or(|planned| at < planned) {
            running.wake = Some(at);
            let life = hosted.life;
            self.clock.plan(
                at,
                Event::WakeWorker {
                    host,
                    life,
                    worker,
                    at,
                },
            );
        }
    }

    fn keep_house(&mut self, host: usize, life: u32) {
        let now = self.now();
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        let mut orders = Vec::new();
        self.hosts[host].machine.housekeeping(now, &mut orders);
        for (worker, answer) in orders {
            self.clock.plan(
                now,
                Event::Answer {
                    host,
                    life,
                    worker,
                    number: None,
                    answer,
                },
            );
        }
        let account = self.hosts[host].machine.bindings();
        self.observe(&Observation::Bindings { host, account });
        self.clock
            .plan(now + HOUSEKEEPING, Event::Housekeeping { host, life });
    }

    fn go_wrong(&mut self, fault: Fault) {
        let now = self.now();
        self.trace.note(now, Party::Nobody, format!("{fault:?}"));
        match fault {
            Fault::CutOff(phone, duration) => {
                let address = self.phones[phone].address().ip();
                self.network.cut_off(address, now + duration);
            }
            Fault::Crash(host, duration) => {
                if self.hosts[host].is_up() {
                    self.hosts[host].crash(now);
                    self.observe(&Observation::Crashed { host });
                    self.clock.plan(now + duration, Event::Boot { host });
                }
            }
            Fault::Stall(host, duration) => {
                let hosted = &mut self.hosts[host];
                hosted.stalled_until = hosted.stalled_until.max(now + duration);
            }
            Fault::ControlAway(host, duration) => {
                let hosted = &mut self.hosts[host];
                hosted.control_away_until = hosted.control_away_until.max(now + duration);
            }
            Fault::Weather(weather) => self.network.set_weather(weather),
        }
    }
}

/// The phones.
impl<M: Machine> World<M> {
    fn act(&mut self, phone: usize, action: Action) {
        let now = self.now();
        let action = match action {
            Action::Mischief(Mischief::Replay(bytes)) if bytes.is_empty() => {
                match &self.overheard {
                    Some(overheard) => Action::Mischief(Mischief::Replay(Rc::clone(overheard))),
                    None => return,
                }
            }
            other => other,
        };
        self.trace
            .note(now, Party::Phone(phone), format!("{action:?}"));
        let before = self.phones[phone].address();
        self.with_phone(phone, |phone, output| phone.perform(now, action, output));
        let after = self.phones[phone].address();
        if before != after {
            self.directory.remove(&before);
            self.directory.insert(after, Party::Phone(phone));
        }
    }

    fn wake_phone(&mut self, phone: usize, at: Time) {
        if self.wakes[phone] == Some(at) {
            self.wakes[phone] = None;
            let now = self.now();
            self.with_phone(phone, |phone, output| phone.wake(now, output));
        }
    }

    fn with_phone(&mut self, index: usize, act: impl FnOnce(&mut Phone, &mut PhoneOutput)) {
        let mut output = PhoneOutput::default();
        act(&mut self.phones[index], &mut output);
        let now = self.now();
        for event in &output.events {
            self.statistics.phone_event(event);
            self.trace
                .note(now, Party::Phone(index), format!("{event:?}"));
            self.observe(&Observation::Phone {
                phone: index,
                event,
            });
        }
        if output.events.contains(&PhoneEvent::Vanished) {
            self.wakes[index] = None;
        }
        let source = self.phones[index].address();
        for (destination, bytes) in &output.messages {
            if self.facts.phones[index].honest && is_authorized(bytes) {
                // What happens inside a dialog is vouched for by its Record-Route, not by credentials.
                let outside = Seen::read(bytes).filter(|seen| seen.to_tag.is_empty());
                if let Some(seen) = outside {
                    self.authorized
                        .insert(index, (seen.transaction(), Rc::clone(bytes)));
                }
            }
            self.send(Party::Phone(index), source, *destination, bytes);
        }
        if let Some(deadline) = self.phones[index].next_deadline() {
            let at = deadline.max(now);
            if self.wakes[index].is_none_or(|planned| at < planned) {
                self.wakes[index] = Some(at);
                self.clock.plan(at, Event::WakePhone { phone: index, at });
            }
        }
    }
}

fn is_authorized(bytes: &[u8]) -> bool {
    let marker = b"uthorization: Digest";
    bytes.windows(marker.len()).any(|window| window == marker)
}
