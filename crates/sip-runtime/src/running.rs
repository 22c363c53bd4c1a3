//! The running workers, as the rest of the program sees them.

use crate::inbox::Inbox;
use crate::stats::WorkerStats;
use crate::worker::Worker;
use sip_transport::{Listener, Node};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fmt, io};
use tracing::error;

/// The control plane, as the workers see it: it takes their questions and their records.
///
/// For a node without records, any `FnMut(u16, Q) -> Result<(), Q>` that is `Clone`, `Send` and `'static` implements it: for
/// example, the sending end of a bounded channel. Each worker has its own clone.
pub trait ControlPlane<Q, R>: Clone + Send + 'static {
    /// Takes a question of worker `worker`. It runs on the worker's thread and must not block. A
    /// question that is returned is counted and dropped; the node continues when the deadline of
    /// its question passes.
    ///
    /// # Errors
    /// The question itself, if there is no room.
    fn ask(&mut self, worker: u16, question: Q) -> Result<(), Q>;

    /// Takes a record of worker `worker`. It runs on the worker's thread and must not block. A
    /// record that is returned is counted as lost. Records need a queue of their own, so that
    /// many questions cannot displace them.
    ///
    /// # Errors
    /// The record itself, if there is no room.
    fn record(&mut self, worker: u16, record: R) -> Result<(), R>;
}

impl<Q, F> ControlPlane<Q, Infallible> for F
where
    F: FnMut(u16, Q) -> Result<(), Q> + Clone + Send + 'static,
{
    fn ask(&mut self, worker: u16, question: Q) -> Result<(), Q> {
        self(worker, question)
    }

    fn record(&mut self, _: u16, record: Infallible) -> Result<(), Infallible> {
        Err(record)
    }
}

/// Sends answers to the workers from any thread. Cloning is cheap. A handle does not keep a worker
/// running.
pub struct Handle<A> {
    inboxes: Arc<[Inbox<A>]>,
}

impl<A> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Self {
            inboxes: Arc::clone(&self.inboxes),
        }
    }
}

impl<A> fmt::Debug for Handle<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handle")
            .field("workers", &self.inboxes.len())
            .finish()
    }
}

/// An answer that could not be sent to its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError<A> {
    /// The worker's inbox is full; retry later.
    Full(A),
    /// The worker does not exist or has stopped.
    Gone(A),
}

impl<A> fmt::Display for SendError<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "the worker's inbox is full",
            Self::Gone(_) => "no such worker runs",
        })
    }
}

impl<A: fmt::Debug> std::error::Error for SendError<A> {}

impl<A> Handle<A> {
    pub(crate) fn new(inboxes: Arc<[Inbox<A>]>) -> Self {
        Self { inboxes }
    }

    /// Accepts no more answers and asks the workers to stop.
    pub(crate) fn close(&self) {
        for inbox in &*self.inboxes {
            inbox.stop();
        }
    }

    /// The number of workers.
    pub fn workers(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// Sends `answer` to one worker. Never blocks.
    ///
    /// # Errors
    /// Returns the answer if the worker's inbox is full, or if the worker does not exist or has
    /// stopped.
    pub fn send(&self, worker: u16, answer: A) -> Result<(), SendError<A>> {
        match self.inboxes.get(usize::from(worker)) {
            Some(inbox) if !inbox.is_stopping() => inbox.answer(answer).map_err(SendError::Full),
            _ => Err(SendError::Gone(answer)),
        }
    }

    /// Sends a clone of `answer` to every worker. Never blocks.
    ///
    /// # Errors
    /// The workers that did not get it. All others did.
    pub fn broadcast(&self, answer: &A) -> Result<(), Vec<u16>>
    where
        A: Clone,
    {
        let missed: Vec<u16> = (0..self.workers())
            .filter(|worker| self.send(*worker, answer.clone()).is_err())
            .collect();
        if missed.is_empty() {
            Ok(())
        } else {
            Err(missed)
        }
    }
}

/// The worker threads. Dropping it stops them, like [`Running::stop`].
pub struct Running<A> {
    handle: Handle<A>,
    stats: Arc<[Arc<WorkerStats>]>,
    listeners: Vec<Listener>,
    threads: Vec<JoinHandle<()>>,
}

impl<A> Running<A> {
    pub(crate) fn new(
        inboxes: Arc<[Inbox<A>]>,
        stats: Arc<[Arc<WorkerStats>]>,
        listeners: Vec<Listener>,
    ) -> Self {
        Self {
            handle: Handle::new(inboxes),
            stats,
            listeners,
            threads: Vec::new(),
        }
    }

    pub(crate) fn spawn<N, C>(&mut self, worker: Worker<N, C>) -> io::Result<()>
    where
        N: Node<Control = A> + Send + 'static,
        N::Question: Send + 'static,
        N::Record: Send + 'static,
        N::Control: Send + 'static,
        C: ControlPlane<N::Question, N::Record>,
    {
        let name = format!("sip-worker-{}", self.threads.len());
        self.threads.push(
            thread::Builder::new()
                .name(name)
                .spawn(move || worker.run())?,
        );
        Ok(())
    }

    /// A handle for the component that answers questions.
    pub fn handle(&self) -> Handle<A> {
        self.handle.clone()
    }

    /// See [`Handle::send`].
    ///
    /// # Errors
    /// See [`Handle::send`].
    pub fn send(&self, worker: u16, answer: A) -> Result<(), SendError<A>> {
        self.handle.send(worker, answer)
    }

    /// See [`Handle::broadcast`].
    ///
    /// # Errors
    /// See [`Handle::broadcast`].
    pub fn broadcast(&self, answer: &A) -> Result<(), Vec<u16>>
    where
        A: Clone,
    {
        self.handle.broadcast(answer)
    }

    /// The counters of each worker. They stay readable after the workers have stopped.
    pub fn stats(&self) -> Arc<[Arc<WorkerStats>]> {
        Arc::clone(&self.stats)
    }

    /// The listeners with the addresses that their sockets are bound to.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Stops the workers: each finishes its current round, then its thread ends and its sockets are
    /// closed. Anything still queued in inboxes and sockets is lost.
    pub fn stop(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        self.handle.close();
        for (worker, thread) in self.threads.drain(..).enumerate() {
            if thread.join().is_err() {
                error!(worker, "the worker's thread had panicked");
            }
        }
    }
}

impl<A> Drop for Running<A> {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

impl<A> fmt::Debug for Running<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Running")
            .field("workers", &self.threads.len())
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
