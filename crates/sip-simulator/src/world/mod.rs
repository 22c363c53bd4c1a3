//! The world: machines, phones and the network between them, driven by one clock in one thread.
mod delivery;
mod machines;
mod phones;

use crate::clock::Clock;
use crate::dice::Dice;
use crate::host::{ControlManners, ControlOf, Host, Machine, QuestionOf};
use crate::network::{Network, Weather};
use crate::observe::{BoundContact, Facts, Invariant, Observation, Party, PhoneFacts, Violation};
use crate::phone::{Action, Phone, Profile};
use crate::statistics::Statistics;
use crate::trace::Trace;
use sip_transport::Time;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The longest delay of a message handed over by a sibling worker.
const HAND_OVER: Duration = Duration::from_micros(400);
/// The longest time until the phones are idle.
const REST: Duration = Duration::from_secs(900);
/// After this time without traffic, no state may be left.
const QUIET: Duration = Duration::from_secs(1_300);

/// A planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Cuts off a phone for this long.
    CutOff(usize, Duration),
    /// A machine loses its power, and starts again after this time.
    Crash(usize, Duration),
    /// The process of a machine is killed, and starts again after this time. Meanwhile its system returns datagrams with an ICMP error.
    Kill(usize, Duration),
    /// A machine stands still for this long, and then processes everything that has arrived meanwhile.
    Stall(usize, Duration),
    /// A machine's control plane answers nothing for this long.
    ControlAway(usize, Duration),
    /// The weather changes.
    Weather(Weather),
}

enum Event<M: Machine> {
    Datagram {
        /// When it arrived, if its machine stood still then.
        since: Option<Time>,
        destination: SocketAddr,
        source: SocketAddr,
        bytes: Rc<[u8]>,
    },
    /// A datagram to `destination` comes back to its sender, a machine.
    Returned {
        host: usize,
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
        answer: ControlOf<M>,
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

/// A world. Build it with [`World::new`], [`World::add_host`] and [`World::add_phone`], give its phones actions, and let time pass.
pub struct World<M: Machine> {
    clock: Clock<Event<M>>,
    dice: Dice,
    network: Network,
    hosts: Vec<Host<M>>,
    phones: Vec<Phone>,
    /// The next wake-up of each phone.
    wakes: Vec<Option<Time>>,
    directory: BTreeMap<SocketAddr, Party>,
    facts: Facts,
    invariants: Vec<Box<dyn Invariant>>,
    violation: Option<Violation>,
    trace: Trace,
    statistics: Statistics,
    questions: u64,
    in_flight: u64,
    /// The last request with credentials of each phone, with its transaction.
    authorized: BTreeMap<usize, (u64, Rc<[u8]>)>,
    /// The last of them that was accepted, for phones that replay it. A lost request would be new to the machine.
    overheard: Option<Rc<[u8]>>,
}

impl<M: Machine> World<M> {
    /// Creates an empty world in calm weather, with the given invariants.
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

    /// Adds a machine, starts it, and returns its index.
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

    /// Adds a phone of the machine `home`, and returns its index. `honest` phones follow the protocol and use their own credentials.
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

    /// The current time.
    pub const fn now(&self) -> Time {
        self.clock.now()
    }

    /// The phone with this index.
    pub fn phone(&self, phone: usize) -> &Phone {
        &self.phones[phone]
    }

    /// The machine with this index.
    pub fn machine(&self, host: usize) -> &M {
        &self.hosts[host].machine
    }

    /// The nodes of a machine, one for each worker; none while the machine is down.
    pub fn nodes(&self, host: usize) -> impl Iterator<Item = &M::Node> {
        self.hosts[host].workers.iter().map(|worker| &worker.node)
    }

    /// The counters so far.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The trace so far.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The first violation. Time stands still after it.
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Changes the weather.
    pub const fn set_weather(&mut self, weather: Weather) {
        self.network.set_weather(weather);
    }

    /// Makes a phone perform an action now.
    pub fn perform(&mut self, phone: usize, action: Action) {
        let now = self.now();
        self.clock.plan(now, Event::Act { phone, action });
    }

    /// Makes a phone perform an action after this time.
    pub fn perform_in(&mut self, after: Duration, phone: usize, action: Action) {
        let at = self.now() + after;
        self.clock.plan(at, Event::Act { phone, action });
    }

    /// Plans a fault after this time.
    pub fn fault_in(&mut self, after: Duration, fault: Fault) {
        let at = self.now() + after;
        self.clock.plan(at, Event::Fault(fault));
    }

    /// Sends an order to all workers of a machine, as its control plane does.
    pub fn order(&mut self, host: usize, order: impl Fn() -> ControlOf<M>) {
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

    /// Writes a line into the trace.
    pub fn note(&mut self, text: String) {
        let now = self.now();
        self.trace.note(now, Party::Nobody, text);
    }

    /// Lets time pass, until a rule is violated.
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

    /// Ends all traffic and all faults, then waits until the phones are idle and everything must have ended. The invariants then check the
    /// final state.
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

    /// Describes the violation, with the last messages that led to it.
    pub fn report(&self, lines: usize) -> Option<String> {
        let violation = self.violation.as_ref()?;
        let call_id = violation.call_id.as_deref();
        let mut report = format!("{violation}\n\n");
        if call_id.is_some() {
            let ladder = self.trace.ladder(lines, call_id);
            let _ = write!(report, "Messages of that call:\n{ladder}\n");
        }
        let ladder = self.trace.ladder(lines / 2, None);
        let _ = write!(report, "The last events of all:\n{ladder}\n");
        if let Some(message) = self.trace.last_message(call_id) {
            let _ = write!(report, "The last message:\n{message}\n");
        }
        Some(report)
    }

    /// Panics if a rule was violated.
    ///
    /// # Panics
    /// The message is the report.
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
            self.read_disk(host);
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
                since,
                destination,
                source,
                bytes,
            } => self.arrive(since, destination, source, bytes),
            Event::Returned {
                host,
                destination,
                source,
                bytes,
            } => self.run_returned(host, source, destination, &bytes),
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
            Event::Fault(fault) => self.go_wrong(&fault),
            Event::Boot { host } => self.boot(host),
            Event::Housekeeping { host, life } => self.keep_house(host, life),
        }
    }
}
