//! Draining: new calls are rejected, calls in setup are completed.
use super::lifecycle::Phase;
use super::order::{Orders, Undelivered};
use super::running::Running;
use super::state::Control;
use sip_elements::ControlMessage;

/// Why draining could not be started or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// Draining before a shutdown cannot be stopped.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server counts as draining until a repeated order reaches every worker.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
}

impl Control {
    /// Starts draining before shutdown; this cannot be reverted.
    ///
    /// # Errors
    /// [`DrainError::Undelivered`].
    pub async fn drain_for_shutdown(&self, running: &Running) -> Result<(), DrainError> {
        let mut orders = self.orders.lock().await;
        orders.is_shutting_down = true;
        self.order_drain(running, &mut orders, true).await
    }

    /// Starts or stops draining. Has no effect if every worker is already in that state.
    ///
    /// # Errors
    /// [`DrainError`].
    pub async fn drain(&self, running: &Running, on: bool) -> Result<(), DrainError> {
        let mut orders = self.orders.lock().await;
        if !on && (orders.is_shutting_down || self.phase() == Phase::Stopping) {
            return Err(DrainError::ShuttingDown);
        }
        self.order_drain(running, &mut orders, on).await
    }

    async fn order_drain(
        &self,
        running: &Running,
        orders: &mut Orders,
        on: bool,
    ) -> Result<(), DrainError> {
        let changes = match self.phase() {
            Phase::Ready => on,
            Phase::Draining => !on || orders.is_drain_unfinished,
            Phase::Starting | Phase::Stopping => false,
        };
        if !changes {
            return Ok(());
        }
        // Readiness ends before the first worker refuses calls, and returns only after the last one accepts them.
        self.lifecycle.rcu(|lifecycle| lifecycle.draining());
        // Set before the order goes out: the waiting caller may be cancelled meanwhile.
        orders.is_drain_unfinished = true;
        self.order(running, &ControlMessage::Drain(on)).await?;
        orders.is_drain_unfinished = false;
        if !on {
            self.lifecycle.rcu(|lifecycle| lifecycle.ready_again());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;
    use crate::config::{self, Configuration};
    use sip_elements::Question;
    use sip_runtime::{Options, Runtime, SharedPeerPolicy};
    use sip_transport::{Input, Listener, Node, Output, Protocol, Time};
    use std::num::NonZeroU16;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use tandem_store::Store;
    use tokio::sync::RwLock;

    /// Records the last order to drain; accepts nothing while `gate` is held.
    struct Gated {
        gate: Arc<RwLock<()>>,
        taken: Arc<AtomicBool>,
    }

    impl Node for Gated {
        type Question = Question;
        type Record = std::convert::Infallible;
        type Control = ControlMessage;

        fn handle(&mut self, _: Time, input: Input<'_, ControlMessage>, _: &mut Output<Question>) {
            let _open = self.gate.blocking_read();
            if let Input::Control(ControlMessage::Drain(on)) = input {
                self.taken.store(on, Ordering::SeqCst);
            }
        }

        fn expire(&mut self, _: Time, _: &mut Output<Question>) {}

        fn next_deadline(&self) -> Option<Time> {
            None
        }
    }

    /// A server with two workers and room for one answer each. The first worker waits at its gate.
    struct Fixture {
        control: Control,
        running: Arc<Running>,
        _workers: sip_runtime::Running<ControlMessage>,
        _directory: tempfile::TempDir,
        gates: [Arc<RwLock<()>>; 2],
        draining: [Arc<AtomicBool>; 2],
    }

    impl Fixture {
        async fn start() -> Self {
            let configuration = Configuration::default();
            let directory = tempfile::tempdir().expect("a directory");
            let database = format!("sqlite:{}", directory.path().join("t.db").display());
            let gates: [Arc<RwLock<()>>; 2] = Default::default();
            let draining: [Arc<AtomicBool>; 2] = Default::default();
            let listener = Listener {
                protocol: Protocol::Udp,
                address: ([127, 0, 0, 1], 0).into(),
                prefix_length: 8,
                advertised: String::new(),
                behind_balancer: false,
            };
            let options = Options {
                waiting_answers: 1,
                ..Options::default()
            };
            let node = |worker: u16| Gated {
                gate: Arc::clone(&gates[usize::from(worker)]),
                taken: Arc::clone(&draining[usize::from(worker)]),
            };
            let workers = Runtime::bind(vec![listener], NonZeroU16::new(2).expect("two"), options)
                .expect("a socket")
                .start(node, &|_, question| Err(question))
                .expect("threads");
            let running = Arc::new(Running {
                store: Store::open(&database).await.expect("a database"),
                tls: None,
                peer_policy: SharedPeerPolicy::new(config::peer_policy(&configuration)),
                shared: Arc::new(tables::shared(&configuration, &[7; 32])),
                metrics: Vec::new(),
                stats: workers.stats(),
                workers: workers.handle(),
                listeners: workers.listeners().to_vec(),
                restored: 0,
            });
            let mut control = Control::new(None, configuration, None);
            control.order_patience = Duration::from_millis(50);
            control.publish(Arc::clone(&running));
            Self {
                control,
                running,
                _workers: workers,
                _directory: directory,
                gates,
                draining,
            }
        }

        /// Waits until both workers have followed the order.
        async fn until_both_drain(&self, on: bool) {
            let deadline = Instant::now() + Duration::from_secs(10);
            let follows = |draining: &Arc<AtomicBool>| draining.load(Ordering::SeqCst) == on;
            while !self.draining.iter().all(follows) {
                assert!(Instant::now() < deadline, "{:?}", self.draining);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        /// Fills the inbox of the first worker, which waits at its gate.
        async fn fill_first_inbox(&self) {
            // It takes one out and waits with it; then there is room for one more.
            for _ in 0..2 {
                while self.running.workers.send(0, ControlMessage::Saved).is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    #[test]
    fn an_order_that_a_worker_missed_names_it_and_is_carried_out_when_given_again() {
        run(async {
            let fixture = Fixture::start().await;
            let (control, running) = (&fixture.control, &fixture.running);
            for on in [true, false] {
                let [gate, _] = &fixture.gates;
                let held = gate.write().await;
                fixture.fill_first_inbox().await;
                let missed = DrainError::from(Undelivered {
                    missing: vec![0],
                    workers: 2,
                });
                assert_eq!(control.drain(running, on).await, Err(missed.clone()));
                assert!(missed.to_string().starts_with("worker 0 of 2 "), "{missed}");
                assert_eq!(control.phase(), Phase::Draining);
                drop(held);
                assert_eq!(control.drain(running, on).await, Ok(()));
                fixture.until_both_drain(on).await;
            }
            assert_eq!(control.phase(), Phase::Ready);
        });
    }

    #[test]
    fn draining_before_a_shutdown_is_not_reverted() {
        run(async {
            let fixture = Fixture::start().await;
            let (control, running) = (&fixture.control, &fixture.running);
            assert_eq!(control.drain_for_shutdown(running).await, Ok(()));
            let refused = Err(DrainError::ShuttingDown);
            assert_eq!(control.drain(running, false).await, refused);
            assert_eq!(control.phase(), Phase::Draining);
            control.stop();
            assert_eq!(control.drain(running, false).await, refused);
            assert_eq!(control.phase(), Phase::Stopping);
        });
    }
}
