//! Resolves the next hops that nodes name.
use sip_message::{Scheme, Uri};
use sip_resolver::Resolver;
use sip_runtime::Handle;
use sip_transport::Protocol;
use sip_transport::selection::Destination;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{Control, Question};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Questions that may wait.
const WAITING: usize = 4_096;
/// Names that are resolved at the same time.
const AT_ONCE: usize = 64;
/// The time limit for one name. The node that asked sends its request again in the meantime.
const PATIENCE: Duration = Duration::from_secs(4);

/// A question, and the worker that asks.
pub(super) type Asked = (u16, Question);

/// The queue of questions.
pub(super) fn queue() -> (mpsc::Sender<Asked>, mpsc::Receiver<Asked>) {
    mpsc::channel(WAITING)
}

/// Answers questions until the queue is closed.
pub(super) async fn answer(
    resolver: Resolver,
    workers: Handle<Control>,
    mut questions: mpsc::Receiver<Asked>,
) {
    let resolver = Arc::new(resolver);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    while let Some((worker, question)) = questions.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let (resolver, workers) = (Arc::clone(&resolver), workers.clone());
        tokio::spawn(async move {
            let candidate = match destination(&question.uri) {
                Some(destination) => {
                    let located = timeout(PATIENCE, resolver.locate(&destination, 0)).await;
                    located.ok().and_then(|it| it.candidates.first().copied())
                }
                None => None,
            };
            // A full inbox loses the answer. The node sends its request again.
            let _ = workers.send(
                worker,
                Control::Resolved {
                    question,
                    candidate,
                },
            );
            drop(permit);
        });
    }
}

fn destination(uri: &[u8]) -> Option<Destination> {
    let uri = Uri::parse(uri)?;
    let host = uri.params.value(b"maddr").unwrap_or(uri.host_bytes);
    Some(Destination {
        host: std::str::from_utf8(host).ok()?.into(),
        port: uri.port,
        protocol: uri
            .params
            .value(b"transport")
            .and_then(Protocol::from_token),
        secure: uri.scheme == Scheme::Sips,
    })
}
