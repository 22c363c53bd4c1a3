//! The machines of a world: runs their workers, executes their output, and lets them fail.
use super::{Event, Fault, HAND_OVER, World};
use crate::host::{ControlOf, HandedOver, Machine, OutputOf, QuestionOf, Worker};
use crate::observe::{Cause, Observation, Party, Step};
use sip_transport::{Flow, HandOverKind, Input, ListenerId, Node, Received, Time, Undelivered};
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

impl<M: Machine> World<M> {
    pub(super) fn boot(&mut self, host: usize) {
        let now = self.now();
        self.hosts[host].boot(now);
        self.trace.note(now, Party::Host(host), "starts".to_owned());
        let hosted = &self.hosts[host];
        let census = |worker: &Worker<M::Node>| hosted.machine.census(&worker.node);
        let live = |worker: &Worker<M::Node>| census(worker).dialogs.live;
        let dialogs = hosted.workers.iter().map(live).sum();
        let calls = hosted.workers.iter().map(|it| census(it).places.calls);
        let calls = calls.collect();
        if hosted.life > 1 {
            self.statistics.restored += dialogs;
        }
        self.observe(&Observation::Booted {
            host,
            dialogs,
            calls,
        });
        for worker in 0..self.hosts[host].workers.len() {
            self.plan_wake(host, worker);
        }
        self.plan_housekeeping(host);
    }

    fn plan_housekeeping(&mut self, host: usize) {
        let hosted = &self.hosts[host];
        let (life, interval) = (hosted.life, hosted.machine.housekeeping_interval());
        let at = self.now() + interval;
        self.clock.plan(at, Event::Housekeeping { host, life });
    }

    pub(super) fn run_receive(
        &mut self,
        host: usize,
        arrived: Time,
        (source, destination): (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) {
        let flow = Flow::to(self.listener_of(host, destination), source);
        let worker = self.hosts[host].worker_for(source, destination);
        self.run(host, worker, Cause::Message, |node, now, output| {
            let message = Received::new(arrived, flow, bytes);
            node.handle(now, Input::Received(message), output);
        });
    }

    fn listener_of(&self, host: usize, address: SocketAddr) -> ListenerId {
        let mut listeners = self.hosts[host].facts.listeners.iter();
        let place = listeners.position(|listener| *listener == address);
        let place = place.and_then(|place| u16::try_from(place).ok());
        ListenerId(place.unwrap_or(0))
    }

    /// A datagram of this machine has come back with an ICMP error.
    pub(super) fn run_returned(
        &mut self,
        host: usize,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        if !self.hosts[host].is_up() || self.hosts[host].stalled_until > self.now() {
            return;
        }
        let flow = Flow::to(self.listener_of(host, source), destination);
        let worker = self.hosts[host].worker_for(destination, source);
        self.run(host, worker, Cause::Message, |node, now, output| {
            let message = Undelivered {
                flow,
                bytes,
                handed_over: false,
            };
            node.handle(now, Input::Undeliverable(message), output);
        });
    }

    pub(super) fn run_hand_over(&mut self, host: usize, life: u32, worker: usize) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        if self.hosts[host].stalled_until > self.now() {
            let until = self.hosts[host].stalled_until;
            return self
                .clock
                .plan(until, Event::HandOver { host, life, worker });
        }
        let Some(message) = self.hosts[host].workers[worker].inbox.pop_front() else {
            return;
        };
        let HandedOver {
            kind,
            arrived,
            flow,
            bytes,
        } = message;
        let input = match kind {
            HandOverKind::Received => Input::Received(Received {
                arrived,
                flow,
                bytes: &bytes,
                handed_over: true,
                over_our_connection: false,
            }),
            HandOverKind::Undeliverable => Input::Undeliverable(Undelivered {
                flow,
                bytes: &bytes,
                handed_over: true,
            }),
            // There are no connections.
            HandOverKind::ToSend | HandOverKind::Proven => return,
        };
        self.run(host, worker, Cause::Message, |node, now, output| {
            node.handle(now, input, output);
        });
    }

    pub(super) fn run_answer(
        &mut self,
        host: usize,
        life: u32,
        worker: usize,
        number: Option<u64>,
        answer: ControlOf<M>,
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
            node.control(now, answer, output);
        });
    }

    pub(super) fn wake_worker(&mut self, host: usize, life: u32, worker: usize, at: Time) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        let now = self.now();
        if self.hosts[host].workers[worker].wake != Some(at) {
            return; // An earlier wake-up replaced this one.
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
                node.expire(now, output);
            });
        } else {
            self.plan_wake(host, worker);
        }
    }

    /// Runs a worker once and executes its output.
    pub(super) fn run(
        &mut self,
        host: usize,
        worker: usize,
        cause: Cause,
        act: impl FnOnce(&mut M::Node, Time, &mut OutputOf<M>),
    ) {
        let now = self.now();
        let running = &mut self.hosts[host].workers[worker];
        let mut output = mem::take(&mut running.output);
        act(&mut running.node, now, &mut output);
        let step = Step {
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
        self.keep(host, &mut output);
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
            step,
            census,
            outstanding,
        });
        self.plan_wake(host, worker);
    }

    /// Executes the output of a worker. Aliases and closed connections are ignored, because there are only datagrams
    /// here.
    pub(super) fn carry_out(&mut self, host: usize, worker: usize, output: &mut OutputOf<M>) {
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
            let message = HandedOver {
                kind: hand_over.kind,
                arrived: hand_over.arrived,
                flow: hand_over.flow,
                bytes,
            };
            self.hosts[host].workers[sibling].inbox.push_back(message);
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

    /// Gives the records of a worker to its control plane.
    fn keep(&mut self, host: usize, output: &mut OutputOf<M>) {
        let now = self.now();
        for record in output.drain_records() {
            if let Some(event) = self.hosts[host].machine.keep(now, record) {
                self.statistics.call_event(&event);
                let event = &event;
                self.observe(&Observation::Call { host, event });
            }
        }
    }

    /// Shows the disk of a machine to the observers.
    pub(super) fn read_disk(&mut self, host: usize) {
        let saved = &self.hosts[host].machine.saved_dialogs()[..];
        self.observe(&Observation::SavedDialogs { host, saved });
    }

    /// Lets the control plane answer a question.
    pub(super) fn reply(
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
            // Questions that pile up are answered late, or forgotten.
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

    pub(super) fn plan_wake(&mut self, host: usize, worker: usize) {
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

    pub(super) fn keep_house(&mut self, host: usize, life: u32) {
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
        self.read_disk(host);
        self.plan_housekeeping(host);
    }

    pub(super) fn go_wrong(&mut self, fault: &Fault) {
        let now = self.now();
        self.trace.note(now, Party::Nobody, format!("{fault:?}"));
        match *fault {
            Fault::CutOff(phone, duration) => {
                let address = self.phones[phone].address().ip();
                self.network.cut_off(address, now + duration);
            }
            Fault::Crash(host, duration) | Fault::Kill(host, duration) => {
                if self.hosts[host].is_up() {
                    self.hosts[host].crash(now);
                    self.hosts[host].returns_datagrams = matches!(fault, Fault::Kill(..));
                    self.observe(&Observation::Crashed { host });
                    self.read_disk(host);
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
