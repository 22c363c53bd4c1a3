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
    use super::super::gated::{Fixture, run};
    use super::*;

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
