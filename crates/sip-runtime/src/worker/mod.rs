//! The worker: one thread that owns its sockets and its node, and moves data between them.

mod arrivals;
mod behind;
mod driven;
mod handed_over;
mod outbox;
mod pauses;
mod ready;
mod returned;
mod socket;
mod utilisation;
mod waiting;

pub(crate) use outbox::WorkerContext;
pub(crate) use socket::WorkerSocket;

use crate::clock::Clock;
use crate::event_loop::{EventLoop, Interest, Ready};
use crate::inbox::Inbox;
use crate::options::Options;
use crate::running::ControlPlane;
use crate::stats::WorkerStats;
use crate::stream::Connections;
use crate::udp::{Datagram, Expected, ReceiveBatch, may_be_of_another};
use arrivals::{Arrivals, Moment};
use behind::{BATCHES, Intake};
use outbox::Outbox;
use pauses::Pauses;
use returned::Errors;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use sip_transport::overload::Backlog;
use sip_transport::{Flow, Input, ListenerId, Node, Output, Received, Time, Undelivered};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, warn};
use waiting::Sockets;

/// The token of the waker in the event loop. The other tokens are sockets.
const WAKER: usize = usize::MAX;

/// Answers, and hand-overs, taken before the sockets get their turn again.
const INBOX_SHARE: usize = 256;

/// Busy rounds after which a worker also checks the sockets that seemed idle.
const ROUNDS_WITHOUT_ASKING: u8 = 4;

/// How late a pause may end, in nanoseconds.
const TIMER_SLACK: u64 = 1_000;

/// How often per round the node is notified of undeliverable messages. Its reaction may be undeliverable, too.
const NOTIFICATIONS_PER_ROUND: usize = 16;

/// How often to read the kernel's drop counters while datagrams arrive.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Worker<N: Node, C> {
    node: N,
    output: Output<N::Question, N::Record>,
    received: ReceiveBatch,
    /// Messages that were read and wait to be served. `None`: messages are always served at once.
    backlog: Option<Backlog>,
    outbox: Outbox<N::Control, C>,
    event_loop: EventLoop,
    /// Which sockets may have datagrams.
    waiting: Sockets,
    /// The sockets to read in this round.
    turn: Vec<usize>,
    /// Returned datagrams.
    errors: Errors,
    /// Connections that are ready but not served yet.
    ready: Vec<Ready>,
    /// When they were found ready.
    ready_since: Time,
    /// Rounds since the event loop was last polled.
    rounds_without_asking: u8,
    clock: Clock,
    arrivals: Arrivals,
    /// When to read the kernel's drop counters. `None` if nothing was received since the last time.
    drops_due: Option<Time>,
    pauses: Pauses,
    cpu: Option<usize>,
}

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    pub(crate) fn new(
        node: N,
        context: WorkerContext<N::Control, C>,
        options: &Options,
    ) -> io::Result<Self> {
        let mut event_loop = EventLoop::open(options.event_loop)?;
        let sockets = context.sockets.as_slice();
        let gso_enabled = options.segmentation && sockets.iter().all(WorkerSocket::supports_gso);
        if let Some(ring) = event_loop.ring() {
            let datagrams = sockets.iter().map(WorkerSocket::datagrams);
            ring.carry_datagrams(datagrams, gso_enabled, Arc::clone(&context.stats))?;
        }
        let carried = event_loop.ring().is_some();
        for (token, socket) in sockets.iter().enumerate() {
            if !carried || socket.datagrams().is_none() {
                event_loop.watch(socket.as_fd(), token, Interest::READABLE)?;
            }
        }
        let index = usize::from(context.index);
        if let Some(inbox) = context.inboxes.get(index) {
            event_loop.watch(inbox.waker(), WAKER, Interest::READABLE)?;
        }
        let smallest = context
            .sockets
            .iter()
            .filter_map(WorkerSocket::receive_buffer)
            .min();
        context
            .stats
            .receive_buffer
            .set(smallest.unwrap_or(0) as u64);
        Ok(Self {
            node,
            output: Output::default(),
            received: ReceiveBatch::new()?,
            backlog: options.overload.as_ref().map(Backlog::new),
            event_loop,
            waiting: Sockets::new(context.sockets.len()),
            turn: Vec::new(),
            errors: Errors::new(context.sockets.len()),
            ready: Vec::new(),
            ready_since: Time::default(),
            rounds_without_asking: 0,
            arrivals: Arrivals::new(read_both(&options.clock)),
            clock: options.clock,
            drops_due: None,
            pauses: Pauses::new(options.clock.now(), options.gather),
            cpu: options.cpus.get(index % options.cpus.len().max(1)).copied(),
            outbox: Outbox::new(context, options, gso_enabled),
        })
    }

    /// Runs until the worker is stopped.
    pub(crate) fn run(mut self) {
        self.pin();
        // By default, the kernel may wake a thread 50 microseconds late, which is as long as a pause.
        let slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK));
        if let Err(error) = slack {
            let worker = self.outbox.context.index;
            warn!(worker, %error, "cannot set the timer slack of the worker");
        }
        while !self.inbox().is_some_and(Inbox::is_stopping) {
            self.round();
            if !self.is_busy() {
                self.rest();
            } else if self.rounds_without_asking >= ROUNDS_WITHOUT_ASKING || !self.ready.is_empty()
            {
                self.ask_event_loop(Some(Duration::ZERO));
            }
        }
    }

    /// Whether there is work for another round, without polling the event loop.
    fn is_busy(&self) -> bool {
        self.waiting.any_likely()
            || self.errors.any_due()
            || self.outbox.has_met_errors()
            || !self.ready.is_empty()
            || self.is_behind()
            || self.inbox().is_some_and(|inbox| !inbox.is_empty())
            || self.outbox.connections.has_events()
    }

    fn pin(&self) {
        let Some(cpu) = self.cpu else { return };
        let mut set = CpuSet::new();
        // No machine has a CPU beyond the size of the set. The kernel then rejects the empty set.
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        if let Err(error) = sched_setaffinity(None, &set) {
            let worker = self.outbox.context.index;
            warn!(worker, cpu, %error, "cannot pin the worker to its CPU");
        }
    }

    fn inbox(&self) -> Option<&Inbox<N::Control>> {
        self.outbox.inbox()
    }

    /// Gives each kind of work its turn. `now` is read once per round: the work of one round takes less than a timer's resolution.
    fn round(&mut self) {
        let now = self.clock.now();
        self.stats().rounds.add(1);
        self.take_answers(now);
        self.take_returned(now);
        if !self.has_caught_up(now) {
            self.take_hand_overs(now);
            self.read_sockets(now);
            self.serve_connections(now);
        }
        self.serve_backlog();
        self.rounds_without_asking = self.rounds_without_asking.saturating_add(1);
        if self
            .node
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.node.expire(now, &mut self.output);
            self.deliver(now);
        }
        self.outbox.connections.expire(now, &mut self.event_loop);
        self.resume_listeners(now);
        self.notify_node(now);
        if self.drops_due.is_some_and(|due| due <= now) {
            self.drops_due = None;
            self.outbox.count_kernel_drops();
        }
    }

    fn stats(&self) -> &WorkerStats {
        &self.outbox.context.stats
    }

    fn take_answers(&mut self, now: Time) {
        let mut taken = 0;
        while taken < INBOX_SHARE {
            let Some(answer) = self.outbox.inbox().and_then(Inbox::take_answer) else {
                break;
            };
            self.node
                .handle(now, Input::Control(answer), &mut self.output);
            taken += 1;
        }
        if taken > 0 {
            self.stats().answers.add(taken as u64);
            self.deliver(now);
        }
    }

    fn deliver(&mut self, now: Time) {
        self.outbox
            .deliver(now, &mut self.event_loop, &mut self.output);
    }

    /// Watches listeners again that were paused for lack of descriptors.
    fn resume_listeners(&mut self, now: Time) {
        for id in self.outbox.connections.take_resumed_listeners(now) {
            let token = usize::from(id.0);
            let Some(socket) = self.outbox.context.sockets.get(token) else {
                continue;
            };
            let watched = self
                .event_loop
                .change(socket.as_fd(), token, Interest::READABLE);
            if let Err(error) = watched {
                let worker = self.outbox.context.index;
                error!(worker, %error, "cannot watch a listener any more");
            }
        }
    }

    /// Notifies the node of closed connections and undeliverable messages.
    fn notify_node(&mut self, now: Time) {
        for _ in 0..NOTIFICATIONS_PER_ROUND {
            if !self.outbox.connections.has_events() {
                return;
            }
            for flow in self.outbox.connections.take_ended() {
                self.node
                    .handle(now, Input::ConnectionEnded(flow), &mut self.output);
            }
            for (flow, message) in self.outbox.connections.take_undeliverable() {
                let input = Input::Undeliverable(Undelivered {
                    flow,
                    bytes: &message,
                    handed_over: false,
                });
                self.node.handle(now, input, &mut self.output);
            }
            self.deliver(now);
        }
    }

    /// Reads one batch from each socket that may have datagrams, or up to `BATCHES` while the worker is behind.
    fn read_sockets(&mut self, now: Time) {
        if !self.has_room() {
            return;
        }
        let mut turn = std::mem::take(&mut self.turn);
        self.waiting.take_likely(&mut turn);
        for listener in turn.drain(..) {
            for _ in 0..BATCHES {
                let count = self.read_socket(now, listener);
                if count == 0 || !self.is_behind() || !self.has_room() {
                    break;
                }
            }
        }
        self.turn = turn;
    }

    /// Reads one batch from one socket. Returns the number of datagrams.
    fn read_socket(&mut self, now: Time, listener: usize) -> usize {
        let id = ListenerId(listener as u16);
        let socket = match self.outbox.context.sockets.get(listener) {
            Some(WorkerSocket::Datagrams(socket)) => socket,
            Some(WorkerSocket::Streams(listening)) => {
                self.outbox
                    .connections
                    .accept(now, &mut self.event_loop, id, listening);
                return 0;
            }
            None => return 0,
        };
        let stats = &*self.outbox.context.stats;
        let expected = if self.is_behind() {
            Expected::Many
        } else {
            self.waiting.expected(listener)
        };
        let read = match self.event_loop.ring() {
            Some(_) => None,
            None => Some(self.received.receive(socket.as_fd(), expected)),
        };
        let now = read_clocks(&self.clock, &mut self.arrivals);
        let arrivals = &self.arrivals;
        let mut intake = Intake {
            node: &mut self.node,
            output: &mut self.output,
            backlog: self.backlog.as_mut(),
            stats,
        };
        let mut bytes = 0;
        let mut take = |datagram: Datagram<'_>| {
            bytes += datagram.bytes.len();
            if datagram.is_truncated {
                stats.truncated.add(1);
            } else {
                let message = Received {
                    arrived: arrivals.arrived(datagram.stamp),
                    flow: Flow::to(id, datagram.from),
                    bytes: datagram.bytes,
                    handed_over: false,
                    over_our_connection: false,
                };
                intake.take(now, message, false);
            }
        };
        let result = match (read, self.event_loop.ring()) {
            (None, Some(ring)) => ring.receive(listener as u16, take),
            (read, _) => read
                .unwrap_or(Ok(0))
                .inspect(|_| self.received.datagrams().for_each(&mut take)),
        };
        let count = match result {
            Ok(count) => count,
            Err(Errno::INTR) => {
                self.waiting.mark(listener);
                0
            }
            // The kernel reports this error once. The datagrams are still in the socket.
            Err(error) if may_be_of_another(error) => {
                self.errors.mark(listener);
                self.waiting.mark(listener);
                0
            }
            Err(_) => {
                stats.receive_errors.add(1);
                0
            }
        };
        self.waiting.after(listener, expected, count);
        if count == 0 {
            return 0;
        }
        stats.datagrams_received.add(count as u64);
        stats.bytes_received.add(bytes as u64);
        self.drops_due.get_or_insert(now + DROPS_INTERVAL);
        self.deliver(now);
        count
    }

    /// Called when there is nothing to do. A busy worker pauses to let messages collect; otherwise the worker waits for the next event.
    fn rest(&mut self) {
        let stats = self.stats();
        let taken = stats.datagrams_received.value()
            + stats.stream_messages_received.value()
            + stats.handed_over_in.value()
            + stats.answers.value();
        let Some(pause) = self.pauses.next(taken) else {
            return self.sleep();
        };
        self.stats().pauses.add(1);
        let begun = self.clock.now();
        self.event_loop.pause(pause);
        self.pauses.paused(begun, self.clock.now());
        let sockets = self.outbox.context.sockets.as_slice();
        match sockets {
            [WorkerSocket::Datagrams(_)] => self.waiting.mark(0),
            // Polling once is cheaper than reading every socket, most of which are empty.
            _ => self.ask_event_loop(Some(Duration::ZERO)),
        }
    }

    /// Waits until a socket is ready, the inbox has entries or a deadline has passed.
    fn sleep(&mut self) {
        let begun = self.clock.now();
        let timeout = self
            .next_deadline()
            .map(|deadline| deadline.saturating_since(begun));
        if self.inbox().is_some_and(Inbox::fall_asleep) {
            self.stats().waits.add(1);
            self.ask_event_loop(timeout);
            self.pauses.waited(begun, self.clock.now());
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.node.next_deadline(),
            self.drops_due,
            self.outbox.connections.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn ask_event_loop(&mut self, timeout: Option<Duration>) {
        self.rounds_without_asking = 0;
        let mut is_woken = false;
        let (waiting, connections) = (&mut self.waiting, &mut self.ready);
        let errors = &mut self.errors;
        // Connections left over from the last round go first. Those not recorded now are reported again.
        let takes_connections = connections.is_empty();
        let result = self.event_loop.wait(timeout, |ready| {
            if ready.token == WAKER {
                is_woken = true;
            } else if Connections::owns(ready.token) {
                if takes_connections {
                    connections.push(ready);
                }
            } else {
                waiting.mark(ready.token);
                if ready.broken {
                    errors.mark(ready.token);
                }
            }
        });
        if let Err(error) = result {
            // This can only happen if the kernel is out of memory. The worker continues and reads every socket.
            error!(worker = self.outbox.context.index, %error, "the event loop failed");
            self.waiting.mark_all();
        }
        if takes_connections && !self.ready.is_empty() {
            self.ready_since = self.clock.now();
        }
        if let Some(inbox) = self.inbox() {
            inbox.awake();
            if is_woken {
                inbox.drain_waker();
            }
        }
    }
}

/// Reads the clocks after a batch of datagrams, so that `arrivals` can tell when they arrived. Returns the current time.
fn read_clocks(clock: &Clock, arrivals: &mut Arrivals) -> Time {
    let mut moment = read_both(clock);
    if arrivals.is_suspicious(moment) {
        // This thread may have been stopped between the two readings. That hardly happens twice in a row.
        moment = read_both(clock);
    }
    arrivals.read(moment);
    moment.now
}

fn read_both(clock: &Clock) -> Moment {
    Moment {
        now: clock.now(),
        wall: Clock::wall(),
    }
}
