//! A worker's inbox: what other threads send to it, and how they wake it.

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use sip_transport::{Flow, HandOverKind, Time};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Received messages may not use the last `1 / KEPT_PART` of the hand-over limits.
const KEPT_PART: usize = 4;

/// A message from another worker, with its purpose.
pub(crate) struct HandedOver {
    pub(crate) kind: HandOverKind,
    /// For a received message: when it reached the machine.
    pub(crate) arrived: Time,
    pub(crate) flow: Flow,
    pub(crate) bytes: Vec<u8>,
}

/// Bounded queues with many writers and one reader, the worker.
///
/// Answers and hand-overs have separate queues, so a flood of messages cannot displace answers. Received messages may fill three
/// quarters of the hand-over limits. The rest is for messages of existing calls and connections.
pub(crate) struct Inbox<A> {
    answers: ArrayQueue<A>,
    hand_overs: ArrayQueue<HandedOver>,
    hand_over_bytes: AtomicUsize,
    hand_over_bytes_limit: usize,
    stopping: AtomicBool,
    /// Set while the worker sleeps or is about to sleep. Only then does a wake-up need a system call.
    asleep: AtomicBool,
    waker: OwnedFd,
}

impl<A> Inbox<A> {
    pub(crate) fn open(
        waiting_answers: usize,
        waiting_hand_overs: usize,
        waiting_hand_over_bytes: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            answers: ArrayQueue::new(waiting_answers.max(1)),
            hand_overs: ArrayQueue::new(waiting_hand_overs.max(1)),
            hand_over_bytes: AtomicUsize::new(0),
            hand_over_bytes_limit: waiting_hand_over_bytes,
            stopping: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waker: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Queues an answer and wakes the worker. Returns the answer if there is no room.
    pub(crate) fn answer(&self, answer: A) -> Result<(), A> {
        self.answers.push(answer)?;
        self.wake();
        Ok(())
    }

    /// Queues a message; returns it if there is no room. The caller wakes the worker afterwards, once for all messages.
    pub(crate) fn hand_over(&self, message: HandedOver) -> Result<(), HandedOver> {
        let kept_part = match message.kind {
            HandOverKind::Received => KEPT_PART,
            HandOverKind::ToSend | HandOverKind::Undeliverable | HandOverKind::Proven => usize::MAX,
        };
        let most = |all: usize| all - all / kept_part;
        if self.hand_overs.len() >= most(self.hand_overs.capacity()) {
            return Err(message);
        }
        let length = message.bytes.len();
        let waiting = self.hand_over_bytes.fetch_add(length, Ordering::Relaxed);
        if waiting.saturating_add(length) > most(self.hand_over_bytes_limit) {
            self.hand_over_bytes.fetch_sub(length, Ordering::Relaxed);
            return Err(message);
        }
        self.hand_overs.push(message).inspect_err(|_| {
            self.hand_over_bytes.fetch_sub(length, Ordering::Relaxed);
        })
    }

    /// Asks the worker to stop after the current round.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes sure that the worker sees everything queued before this call.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `fall_asleep`: either the worker sees what was queued, or this thread sees that the worker sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            // This fails only if the counter is full, and then the worker is already being woken.
            let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
        }
    }

    /// For the worker: announces that it will wait in its event loop. Returns false if something was queued meanwhile; the worker
    /// must not wait then.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let quiet = self.is_empty() && !self.is_stopping();
        if !quiet {
            self.awake();
        }
        quiet
    }

    /// For the worker: whether writers will wake it.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// For the worker: it runs again and needs no wake-up.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// For the worker: clears the waker after the event loop has reported it.
    pub(crate) fn drain_waker(&self) {
        // An error means that it is already empty.
        let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
    }

    pub(crate) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.hand_overs.is_empty()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn take_answer(&self) -> Option<A> {
        self.answers.pop()
    }

    pub(crate) fn take_hand_over(&self) -> Option<HandedOver> {
        let message = self.hand_overs.pop()?;
        self.hand_over_bytes
            .fetch_sub(message.bytes.len(), Ordering::Relaxed);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::ListenerId;

    fn message(length: usize) -> HandedOver {
        of_kind(HandOverKind::ToSend, length)
    }

    fn of_kind(kind: HandOverKind, length: usize) -> HandedOver {
        let flow = Flow::to(ListenerId(0), ([127, 0, 0, 1], 5060).into());
        HandedOver {
            kind,
            arrived: Time::default(),
            flow,
            bytes: vec![b'x'; length],
        }
    }

    fn is_woken<A>(inbox: &Inbox<A>) -> bool {
        rustix::io::read(inbox.waker(), &mut [0_u8; 8]).is_ok()
    }

    #[test]
    fn answers_beyond_the_capacity_come_back() {
        let inbox = Inbox::open(2, 1, 100).expect("inbox");
        assert_eq!(
            [inbox.answer(1), inbox.answer(2), inbox.answer(3)],
            [Ok(()), Ok(()), Err(3)]
        );
        assert_eq!(inbox.take_answer(), Some(1));
        assert_eq!(inbox.answer(4), Ok(()));
    }

    #[test]
    fn hand_overs_are_bounded_in_number_and_in_bytes() {
        let inbox = Inbox::<()>::open(1, 2, 100).expect("inbox");
        assert!(inbox.hand_over(message(60)).is_ok());
        assert!(inbox.hand_over(message(41)).is_err(), "too many bytes");
        assert!(inbox.hand_over(message(40)).is_ok());
        assert!(inbox.hand_over(message(0)).is_err(), "too many messages");
        assert_eq!(
            inbox.take_hand_over().map(|message| message.bytes.len()),
            Some(60)
        );
        assert!(
            inbox.hand_over(message(60)).is_ok(),
            "taking one makes room"
        );
    }

    #[test]
    fn received_messages_leave_room_for_what_belongs_to_calls_that_exist() {
        for (most, most_bytes, length) in [(8, 1_000, 1), (1_000, 800, 100)] {
            let inbox = Inbox::<()>::open(1, most, most_bytes).expect("inbox");
            let taken = |kind| {
                (0..20)
                    .filter(|_| inbox.hand_over(of_kind(kind, length)).is_ok())
                    .count()
            };
            assert_eq!(taken(HandOverKind::Received), 6);
            assert_eq!(taken(HandOverKind::ToSend), 2);
        }
        for kind in [HandOverKind::Undeliverable, HandOverKind::Proven] {
            let inbox = Inbox::<()>::open(1, 8, 1_000).expect("inbox");
            assert!((0..8).all(|_| inbox.hand_over(of_kind(kind, 1)).is_ok()));
        }
    }

    #[test]
    fn hand_overs_take_no_answers_place() {
        let inbox = Inbox::open(1, 1, 100).expect("inbox");
        assert!(inbox.hand_over(message(1)).is_ok());
        assert!(inbox.hand_over(message(1)).is_err());
        assert_eq!(inbox.answer(7), Ok(()));
    }

    #[test]
    fn only_a_sleeping_worker_is_woken_and_once() {
        let inbox = Inbox::open(8, 8, 100).expect("inbox");
        inbox.answer(1).expect("room");
        assert!(!is_woken(&inbox), "it is running");
        assert!(!inbox.fall_asleep(), "the answer must be taken first");
        inbox.take_answer();
        assert!(inbox.fall_asleep());
        inbox.answer(2).expect("room");
        assert!(is_woken(&inbox));
        inbox.answer(3).expect("room");
        assert!(!is_woken(&inbox), "it is woken already");
    }

    #[test]
    fn stop_wakes_and_keeps_awake() {
        let inbox = Inbox::<()>::open(1, 1, 100).expect("inbox");
        assert!(inbox.fall_asleep());
        inbox.stop();
        assert!(is_woken(&inbox) && inbox.is_stopping() && !inbox.fall_asleep());
    }
}
