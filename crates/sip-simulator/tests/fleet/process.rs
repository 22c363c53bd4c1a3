//! A worker of an edge or of a node, with the clock of its machine.

use sip_elements::{ControlMessage, Exchange, Question, Record};
use sip_transport::{HandOverKind, Input, Node, Output, Received, Time};
use std::time::Duration;
use tandem_balancer::{Control, Edge};

/// A worker of the fleet.
pub struct Process {
    pub worker: Worker,
    /// How far its clock is ahead of the world's.
    pub ahead: Duration,
    /// Methods that its machine forgets to send: a planted fault.
    pub loses: Option<&'static [u8]>,
}

/// What the worker runs.
pub enum Worker {
    Edge(Box<Edge>, Output<tandem_balancer::Question>),
    Node(Box<Exchange>, Output<Question, Record>),
}

/// A question to the control plane.
pub enum FleetQuestion {
    Edge(tandem_balancer::Question),
    Node(Question),
}

/// An order of the control plane.
#[derive(Clone, Debug)]
pub enum FleetControl {
    Edge(Control),
    Node(ControlMessage),
}

impl FleetControl {
    fn of_edge(self) -> Option<Control> {
        match self {
            Self::Edge(control) => Some(control),
            Self::Node(_) => None,
        }
    }

    fn of_node(self) -> Option<ControlMessage> {
        match self {
            Self::Node(control) => Some(control),
            Self::Edge(_) => None,
        }
    }
}

impl Process {
    fn earlier(&self, time: Time) -> Time {
        earlier(time, self.ahead)
    }
}

fn earlier(time: Time, by: Duration) -> Time {
    let by = u64::try_from(by.as_micros()).expect("a short time");
    Time::from_micros(time.as_micros() - by)
}

impl Node for Process {
    type Question = FleetQuestion;
    type Record = Record;
    type Control = FleetControl;

    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, FleetControl>,
        output: &mut Output<FleetQuestion, Record>,
    ) {
        let ahead = self.ahead;
        let now = now + ahead;
        let how = (ahead, self.loses);
        match &mut self.worker {
            Worker::Edge(edge, own) => {
                if let Some(input) = convert(input, ahead, FleetControl::of_edge) {
                    edge.handle(now, input, own);
                    pass_on(
                        own,
                        output,
                        how,
                        FleetQuestion::Edge,
                        |never| match never {},
                    );
                }
            }
            Worker::Node(exchange, own) => {
                if let Some(input) = convert(input, ahead, FleetControl::of_node) {
                    exchange.handle(now, input, own);
                    pass_on(own, output, how, FleetQuestion::Node, |record| record);
                }
            }
        }
    }

    fn expire(&mut self, now: Time, output: &mut Output<FleetQuestion, Record>) {
        let now = now + self.ahead;
        let how = (self.ahead, self.loses);
        match &mut self.worker {
            Worker::Edge(edge, own) => {
                edge.expire(now, own);
                pass_on(
                    own,
                    output,
                    how,
                    FleetQuestion::Edge,
                    |never| match never {},
                );
            }
            Worker::Node(exchange, own) => {
                exchange.expire(now, own);
                pass_on(own, output, how, FleetQuestion::Node, |record| record);
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let next = match &self.worker {
            Worker::Edge(edge, _) => edge.next_deadline(),
            Worker::Node(exchange, _) => exchange.next_deadline(),
        };
        next.map(|next| self.earlier(next))
    }
}

/// The input as the worker's clock has it.
fn convert<C>(
    input: Input<'_, FleetControl>,
    ahead: Duration,
    control: impl Fn(FleetControl) -> Option<C>,
) -> Option<Input<'_, C>> {
    Some(match input {
        Input::Received(message) => Input::Received(Received {
            arrived: message.arrived + ahead,
            ..message
        }),
        Input::Undeliverable(message) => Input::Undeliverable(message),
        Input::ConnectionEnded(connection) => Input::ConnectionEnded(connection),
        Input::Control(order) => Input::Control(control(order)?),
    })
}

/// Moves the output of a worker to that of the process.
fn pass_on<Q, R>(
    from: &mut Output<Q, R>,
    to: &mut Output<FleetQuestion, Record>,
    (ahead, loses): (Duration, Option<&'static [u8]>),
    question: impl Fn(Q) -> FleetQuestion,
    record: impl Fn(R) -> Record,
) {
    for outgoing in from.outgoing() {
        let bytes = from.written(outgoing.range.clone());
        if !loses.is_some_and(|method| bytes.starts_with(method)) {
            to.send(outgoing.flow, |into| into.extend_from_slice(bytes));
        }
    }
    for message in from.hand_overs() {
        let bytes = from.written(message.range.clone());
        match message.kind {
            HandOverKind::Received => {
                let arrived = earlier(message.arrived, ahead);
                to.hand_over(message.worker, arrived, message.flow, bytes);
            }
            HandOverKind::Undeliverable => {
                to.return_undeliverable(message.worker, message.flow, bytes);
            }
            // There are no connections.
            HandOverKind::ToSend | HandOverKind::Proven => {}
        }
    }
    for asked in from.drain_questions() {
        to.ask(question(asked));
    }
    for kept in from.drain_records() {
        to.record(record(kept));
    }
    from.clear();
}
