//! The dialogs that the nodes of a fleet share (`dialogs.store`): joins the exchange when the workers run, and leaves it at the end.
use crate::calls::CallSender;
use crate::config::{Configuration, RedisUrl};
use crate::control::{Control, Running};
use crate::fleet_store::{
    DialogLink, DialogLinkOptions, DialogNews, DialogOutlet, IntakeOptions, Pulse,
};
use sip_dialog::CallEvent;
use sip_elements::ControlMessage;
use sip_runtime::SendError;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Bytes of dialogs that are kept in memory, in case the store loses them. A typical call has less than 600 bytes.
const MOST_BYTES: usize = 256 << 20;

/// Where orders and records go.
struct Outlet {
    running: Arc<Running>,
    calls: CallSender,
}

impl DialogOutlet for Outlet {
    fn order(&self, worker: u16, order: ControlMessage) -> Result<(), ControlMessage> {
        match self.running.workers.send(worker, order) {
            Err(SendError::Full(order)) => Err(order),
            Ok(()) | Err(SendError::Gone(_)) => Ok(()),
        }
    }

    fn release(&self, event: CallEvent) {
        // A loss is counted there.
        let _ = self.calls.offer(event);
    }
}

/// What workers and the exchange share.
pub(super) struct Joining {
    pub(super) news: mpsc::Receiver<DialogNews>,
    pub(super) pulse: Pulse,
    pub(super) calls: CallSender,
}

/// Starts the exchange. It ends when the workers have stopped and everything is written.
pub(super) fn start(
    control: &Control,
    running: &Arc<Running>,
    url: &RedisUrl,
    joining: Joining,
) -> JoinHandle<bool> {
    let configuration: Arc<Configuration> = control.configuration.load_full();
    let instance = configuration.instance().to_owned();
    let intake = IntakeOptions {
        instance: instance.clone(),
        workers: configuration.workers.count.resolve(),
        hasher: running.shared.hasher,
        clock: control.clock,
        most_bytes: MOST_BYTES,
        outlet: Outlet {
            running: Arc::clone(running),
            calls: joining.calls,
        },
        news: joining.news,
        pulse: joining.pulse,
        counters: Arc::clone(&control.fleet_dialogs),
        saves: Arc::clone(&control.counters.dialogs),
    };
    let options = DialogLinkOptions {
        server: url.server().clone(),
        shown: url.shown().as_str().to_owned(),
        prefix: configuration.fleet.prefix.0.as_str().to_owned(),
        instance,
        orphan_after: configuration.dialogs.orphan_after,
    };
    let link = DialogLink::new(options, intake);
    tokio::spawn(async move {
        link.run().await;
        true
    })
}
