//! The worker: one thread that owns its sockets and its node and carries what comes out of the
//! one into the other.

use crate::clock::Clock;
use crate::event_loop::EventLoop;
use crate::inbox::{HandedOver, Inbox};
use crate::options::Options;
use crate::running::QuestionSink;
use crate::stats::WorkerStats;
use crate::udp::{Expected, ReceiveBatch, SendBatch, UdpSocket};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use sip_transport::{Flow, HandOver, ListenerId, Node, Outgoing, Output, Time};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, warn};

/// Names the waker among the descriptors of the event loop; the others are sockets.
const WAKER: usize = usize::MAX;

/// Answers and hand-overs taken before the sockets have their turn again.
const INBOX_SHARE: usize = 256;

/// Datagrams read one by one, which is cheaper when they come one by one, before it is tried again
/// whether they come many at once.
const READS_OF_ONE: u8 = 8;

/// Busy rounds after which a worker looks at the sockets that seemed quiet.
const ROUNDS_WITHOUT_ASKING: u8 = 4;

/// How often the kernel is asked for its drops while datagrams come in.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

/// Buffers of hand-overs kept for the next ones, and the largest worth keeping: for messages of
/// ordinary size 1 MiB in all.
const SPARE_BUFFERS: usize = 256;
const LARGEST_SPARE_BUFFER: usize = 4 << 10;

/// An output that grew beyond this in a burst gives its memory back.
const LARGEST_KEPT_OUTPUT: usize = 4 << 20;

/// What a worker is given beside its node.
pub(crate) struct Surroundings<A, Q> {
    pub(crate) index: u16,
    /// One for each listener, in their order.
    pub(crate) sockets: Vec<UdpSocket>,
    /// Those of all workers; its own is at its index.
    pub(crate) inboxes: Arc<[Inbox<A>]>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) questions: Q,
}

pub(crate) struct Worker<N: Node, Q> {
    node: N,
    output: Output<N::Question>,
    received: ReceiveBatch,
    post: Post<N::Answer, Q>,
    event_loop: EventLoop,
    /// For each socket what may wait in it.
    waiting: Vec<Waiting>,
    /// Rounds since the event loop was last asked which sockets are readable.
    rounds_without_asking: u8,
    clock: Clock,
    /// When to ask for the kernel's drops; `None` while nothing came in since they were asked for.
    drops_due: Option<Time>,
    cpu: Option<usize>,
}

/// What may wait in a socket, judged by what came last.
#[derive(Clone, Copy)]
struct Waiting {
    /// Worth reading without asking the event loop.
    is_likely: bool,
    /// Reads since the last one that could have brought many.
    reads_of_one: u8,
}

impl Waiting {
    const UNKNOWN: Self = Self {
        is_likely: true,
        reads_of_one: READS_OF_ONE,
    };

    fn expected(self) -> Expected {
        if self.reads_of_one < READS_OF_ONE {
            Expected::One
        } else {
            Expected::Many
        }
    }

    /// `count` datagrams came when `expected` were. Where two came at once there are likely more
    /// by the time they are handled; where one came it was likely alone, and so will the next be.
    fn after(self, expected: Expected, count: usize) -> Self {
        let reads_of_one = match expected {
            Expected::One => self.reads_of_one.saturating_add(1),
            Expected::Many if count >= 2 => READS_OF_ONE,
            Expected::Many => 0,
        };
        Self {
            is_likely: count >= 2,
            reads_of_one,
        }
    }
}

/// Everything a worker's output goes out through.
struct Post<A, Q> {
    surroundings: Surroundings<A, Q>,
    batch: SendBatch,
    spare_buffers: Vec<Vec<u8>>,
    /// The workers to wake, for having been handed something.
    to_wake: Vec<bool>,
}

impl<N: Node, Q: QuestionSink<N::Question>> Worker<N, Q> {
    pub(crate) fn new(
        node: N,
        surroundings: Surroundings<N::Answer, Q>,
        options: &Options,
    ) -> io::Result<Self> {
        let mut event_loop = EventLoop::open(options.event_loop)?;
        for (token, socket) in surroundings.sockets.iter().enumerate() {
            event_loop.watch(socket.as_fd(), token)?;
        }
        let index = usize::from(surroundings.index);
        if let Some(inbox) = surroundings.inboxes.get(index) {
            event_loop.watch(inbox.waker(), WAKER)?;
        }
        let smallest = surroundings
            .sockets
            .iter()
            .map(UdpSocket::receive_buffer)
            .min();
        surroundings
            .stats
            .receive_buffer
            .set(smallest.unwrap_or(0) as u64);
        Ok(Self {
            node,
            output: Output::default(),
            received: ReceiveBatch::new()?,
            event_loop,
            waiting: vec![Waiting::UNKNOWN; surroundings.sockets.len()],
            rounds_without_asking: 0,
            clock: options.clock,
            drops_due: None,
            cpu: options.cpus.get(index % options.cpus.len().max(1)).copied(),
            post: Post {
                batch: SendBatch::new(),
                spare_buffers: Vec::with_capacity(SPARE_BUFFERS),
                to_wake: vec![false; surroundings.inboxes.len()],
                surroundings,
            },
        })
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) {
        self.pin();
        while !self.inbox().is_some_and(Inbox::is_stopping) {
            self.round();
            let is_busy = self.waiting.iter().any(|waiting| waiting.is_likely)
                || self.inbox().is_some_and(|inbox| !inbox.is_empty());
            if !is_busy {
                self.sleep();
            } else if self.rounds_without_asking >= ROUNDS_WITHOUT_ASKING {
                self.ask_event_loop(Some(Duration::ZERO));
            }
        }
    }

    fn pin(&self) {
        let Some(cpu) = self.cpu else { return };
        let mut set = CpuSet::new();
        // Beyond the set's size means beyond any machine's; the kernel refuses the empty set.
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        if let Err(error) = sched_setaffinity(None, &set) {
            let worker = self.post.surroundings.index;
            warn!(worker, cpu, %error, "cannot pin the worker to its CPU");
        }
    }

    fn inbox(&self) -> Option<&Inbox<N::Answer>> {
        self.post.inbox()
    }

    /// Everything gets its turn once. The clock is read once: what a round handles at most takes
    /// less than a timer's resolution.
    fn round(&mut self) {
        let now = self.clock.now();
        self.stats().rounds.add(1);
        self.take_answers(now);
        self.take_hand_overs(now);
        for listener in 0..self.waiting.len() {
            match self.waiting.get(listener) {
                Some(waiting) if waiting.is_likely => self.read_socket(now, listener, *waiting),
                _ => {}
            }
        }
        self.rounds_without_asking = self.rounds_without_asking.saturating_add(1);
        if self
            .node
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.node.expire(now, &mut self.output);
            self.post.deliver(&mut self.output);
        }
        if self.drops_due.is_some_and(|due| due <= now) {
            self.drops_due = None;
            self.post.count_kernel_drops();
        }
    }

    fn stats(&self) -> &WorkerStats {
        &self.post.surroundings.stats
    }

    fn take_answers(&mut self, now: Time) {
        let mut taken = 0;
        while taken < INBOX_SHARE {
            let Some(answer) = self.post.inbox().and_then(Inbox::take_answer) else {
                break;
            };
            self.node.answer(now, answer, &mut self.output);
            taken += 1;
        }
        if taken > 0 {
            self.stats().answers.add(taken as u64);
            self.post.deliver(&mut self.output);
        }
    }

    fn take_hand_overs(&mut self, now: Time) {
        let mut taken = 0;
        while taken < INBOX_SHARE {
            let Some(message) = self.post.inbox().and_then(Inbox::take_hand_over) else {
                break;
            };
            self.node
                .receive_handed_over(now, message.flow, &message.bytes, &mut self.output);
            self.post.keep_buffer(message.bytes);
            taken += 1;
        }
        if taken > 0 {
            self.stats().handed_over_in.add(taken as u64);
            self.post.deliver(&mut self.output);
        }
    }

    /// One batch of one socket.
    fn read_socket(&mut self, now: Time, listener: usize, waiting: Waiting) {
        let Some(socket) = self.post.surroundings.sockets.get(listener) else {
            return;
        };
        let stats = &*self.post.surroundings.stats;
        let expected = waiting.expected();
        let count = match self.received.receive(socket.as_fd(), expected) {
            Ok(count) => count,
            Err(Errno::INTR) => return,
            Err(_) => {
                stats.receive_errors.add(1);
                0
            }
        };
        if let Some(waiting) = self.waiting.get_mut(listener) {
            *waiting = waiting.after(expected, count);
        }
        if count == 0 {
            return;
        }
        let listener = ListenerId(listener as u16);
        let mut bytes = 0;
        for datagram in self.received.datagrams() {
            bytes += datagram.bytes.len();
            if datagram.is_truncated {
                stats.truncated.add(1);
            } else {
                let flow = Flow::datagram(listener, datagram.from);
                self.node
                    .receive(now, flow, datagram.bytes, &mut self.output);
            }
        }
        stats.datagrams_received.add(count as u64);
        stats.bytes_received.add(bytes as u64);
        self.drops_due.get_or_insert(now + DROPS_INTERVAL);
        self.post.deliver(&mut self.output);
    }

    /// Waits until a socket is readable, the inbox has something or a deadline has come.
    fn sleep(&mut self) {
        let deadline = match (self.node.next_deadline(), self.drops_due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = deadline.map(|deadline| deadline.saturating_since(self.clock.now()));
        if self.inbox().is_some_and(Inbox::fall_asleep) {
            self.stats().waits.add(1);
            self.ask_event_loop(timeout);
        }
    }

    fn ask_event_loop(&mut self, timeout: Option<Duration>) {
        self.rounds_without_asking = 0;
        let mut is_woken = false;
        let waiting = &mut self.waiting;
        let result = self.event_loop.wait(timeout, |token| {
            if token == WAKER {
                is_woken = true;
            } else if let Some(waiting) = waiting.get_mut(token) {
                waiting.is_likely = true;
            }
        });
        if let Err(error) = result {
            // Can only come from a kernel out of memory: the round goes on, reading every socket.
            error!(worker = self.post.surroundings.index, %error, "the event loop failed");
            self.waiting.fill(Waiting::UNKNOWN);
        }
        if let Some(inbox) = self.inbox() {
            inbox.awake();
            if is_woken {
                inbox.drain_waker();
            }
        }
    }
}

impl<A, Q> Post<A, Q> {
    fn inbox(&self) -> Option<&Inbox<A>> {
        self.surroundings
            .inboxes
            .get(usize::from(self.surroundings.index))
    }

    /// Sends, hands over and asks everything in `output`, and empties it.
    fn deliver<T>(&mut self, output: &mut Output<T>)
    where
        Q: QuestionSink<T>,
    {
        if output.is_empty() {
            return;
        }
        self.send(output.outgoing(), output.bytes());
        self.hand_over(output.hand_overs(), output.bytes());
        self.ask(output);
        if output.bytes().len() > LARGEST_KEPT_OUTPUT {
            *output = Output::default();
        } else {
            output.clear();
        }
    }

    /// Sends in the order of the output, as many at once as leave through the same socket.
    fn send(&mut self, messages: &[Outgoing], bytes: &[u8]) {
        let stats = &*self.surroundings.stats;
        for run in messages.chunk_by(|a, b| a.flow.listener == b.flow.listener) {
            let listener = run
                .first()
                .map_or(0, |message| usize::from(message.flow.listener.0));
            match self.surroundings.sockets.get(listener) {
                Some(socket) => self.batch.send(socket.as_fd(), run, bytes, stats),
                None => stats.send_errors.add(run.len() as u64),
            }
        }
    }

    fn hand_over(&mut self, messages: &[HandOver], bytes: &[u8]) {
        if messages.is_empty() {
            return;
        }
        let mut handed_over = 0;
        for message in messages {
            let bytes = bytes.get(message.range.clone()).unwrap_or_default();
            let mut buffer = self.spare_buffers.pop().unwrap_or_default();
            buffer.extend_from_slice(bytes);
            let to = usize::from(message.worker);
            let message = HandedOver {
                flow: message.flow,
                bytes: buffer,
            };
            let Some(inbox) = self.surroundings.inboxes.get(to) else {
                continue;
            };
            match inbox.hand_over(message) {
                Ok(()) => {
                    handed_over += 1;
                    if let Some(to_wake) = self.to_wake.get_mut(to) {
                        *to_wake = true;
                    }
                }
                Err(message) => self.keep_buffer(message.bytes),
            }
        }
        for (inbox, to_wake) in self.surroundings.inboxes.iter().zip(&mut self.to_wake) {
            if std::mem::take(to_wake) {
                inbox.wake();
            }
        }
        let stats = &self.surroundings.stats;
        stats.handed_over_out.add(handed_over);
        stats
            .hand_overs_dropped
            .add(messages.len() as u64 - handed_over);
    }

    /// Keeps the buffer of a hand-over for the next one. Workers hand over to each other about
    /// equally, so the buffers that come in serve those that go out.
    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.spare_buffers.len() < SPARE_BUFFERS && buffer.capacity() <= LARGEST_SPARE_BUFFER {
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }

    fn ask<T>(&mut self, output: &mut Output<T>)
    where
        Q: QuestionSink<T>,
    {
        let (mut asked, mut dropped) = (0, 0);
        for question in output.drain_questions() {
            asked += 1;
            if self
                .surroundings
                .questions
                .ask(self.surroundings.index, question)
                .is_err()
            {
                dropped += 1;
            }
        }
        if asked > 0 {
            self.surroundings.stats.questions.add(asked);
            self.surroundings.stats.questions_dropped.add(dropped);
        }
    }

    fn count_kernel_drops(&mut self) {
        for socket in &mut self.surroundings.sockets {
            if let Ok(drops) = socket.new_kernel_drops() {
                self.surroundings.stats.kernel_drops.add(u64::from(drops));
            }
        }
    }
}
