//! Tracing: orders the workers to copy messages.
use super::order::Undelivered;
use super::running::Running;
use super::state::Control;
use crate::trace::{Reading, StartError, Started};
use sip_elements::ControlMessage;
use sip_elements::trace::Selection;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often to check whether the workers follow.
const PAUSE: Duration = Duration::from_millis(1);

impl Control {
    /// Starts a trace. When this returns, every worker copies its messages.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) async fn start_trace(
        &self,
        running: &Running,
        selection: Selection,
        started: Started,
    ) -> Result<Reading, StartError> {
        let duration = Duration::from_secs(started.seconds);
        let (id, reading) = self.traces.add(selection, duration)?;
        // If this fails or is cancelled, the reader is gone, and the keeper ends the trace.
        self.order_tracing(running).await?;
        self.traces.begin(id, started);
        Ok(reading)
    }

    /// Orders every worker to copy what the traces and the collector need, and waits until they do.
    ///
    /// # Errors
    /// [`Undelivered`].
    pub(crate) async fn order_tracing(&self, running: &Running) -> Result<(), Undelivered> {
        let mut orders = self.orders.lock().await;
        orders.traces += 1;
        let number = orders.traces;
        let everything = self.configuration.load().trace.hep.is_some();
        let order = Arc::new(self.traces.order(number, everything));
        self.order(running, &ControlMessage::Trace(order)).await?;
        let deadline = Instant::now() + self.order_patience;
        loop {
            let workers = (0..).zip(&running.metrics);
            let behind = workers.filter(|(_, metrics)| metrics.trace_order.value() < number);
            let missing: Vec<u16> = behind.map(|(worker, _)| worker).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let workers = running.workers.workers();
                return Err(Undelivered { missing, workers });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
