//! The running workers, as the rest of the program sees them.

use crate::inbox::Inbox;
use crate::stats::WorkerStats;
use crate::worker::Worker;
use sip_transport::{Listener, Node};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fmt, io};
use tracing::error;

/// Takes the questions of the workers to the control plane.
///
/// Any `FnMut(u16, T) -> Result<(), T>` that can be cloned and sent is one: the sending end of a
/// bounded channel, say. Each worker has a clone of its own.
pub trait QuestionSink<T>: Clone + Send + 'static {
    /// Takes the question of worker `worker`. Runs on the worker's thread: it must neither block
    /// nor wait. Gives back what it has no room for; it is counted and lost, and the node goes on
    /// when the deadline of its question passes.
    ///
    /// # Errors
    /// The question itself, when there is no room.
    fn ask(&mut self, worker: u16, question: T) -> Result<(), T>;
}

impl<T, F> QuestionSink<T> for F
where
    F: FnMut(u16, T) -> Result<(), T> + Clone + Send + 'static,
{
    fn ask(&mut self, worker: u16, question: T) -> Result<(), T> {
        self(worker, question)
    }
}

/// Speaks to the workers from anywhere. Clones are cheap; they keep no worker running.
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

/// An answer that did not reach its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError<A> {
    /// The worker's inbox is full; try again later.
    Full(A),
    /// No such worker runs.
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

    /// Takes nothing any more, and asks the workers to end.
    pub(crate) fn close(&self) {
        for inbox in &*self.inboxes {
            inbox.stop();
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// Gives `answer` to one worker. Never blocks.
    ///
    /// # Errors
    /// The answer comes back when the worker's inbox is full or there is no such worker.
    pub fn send(&self, worker: u16, answer: A) -> Result<(), SendError<A>> {
        match self.inboxes.get(usize::from(worker)) {
            Some(inbox) if !inbox.is_stopping() => inbox.answer(answer).map_err(SendError::Full),
            _ => Err(SendError::Gone(answer)),
        }
    }

    /// Gives a clone of `answer` to every worker. Never blocks.
    ///
    /// # Errors
    /// The workers that did not get it; the others did.
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

/// The worker threads. Dropping it stops them, as [`Running::stop`] does.
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

    pub(crate) fn spawn<N, Q>(&mut self, worker: Worker<N, Q>) -> io::Result<()>
    where
        N: Node<Answer = A> + Send + 'static,
        N::Question: Send + 'static,
        N::Answer: Send + 'static,
        Q: QuestionSink<N::Question>,
    {
        let name = format!("sip-worker-{}", self.threads.len());
        self.threads.push(
            thread::Builder::new()
                .name(name)
                .spawn(move || worker.run())?,
        );
        Ok(())
    }

    /// A handle to give to whoever answers questions.
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

    /// The figures of each worker; they stay readable after the end.
    pub fn stats(&self) -> Arc<[Arc<WorkerStats>]> {
        Arc::clone(&self.stats)
    }

    /// The listeners with the addresses their sockets got.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Lets each worker finish the round it is in, waits for its end and closes its sockets.
    /// What waits in inboxes and sockets is lost.
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
