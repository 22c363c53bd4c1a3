//! What it costs to end a pod: its live calls. When Kubernetes scales the nodes down, it ends the pods with the lowest
//! `controller.kubernetes.io/pod-deletion-cost` first.

use crate::controller::Fleet;
use crate::load;
use crate::source::KubernetesSource;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Longest answer of the API server, in bytes: a pod.
const LARGEST: usize = 4 << 20;

/// Writes the cost of each active node whenever it has changed, and never returns. The API server should not get that often, so nodes are asked
/// once in `every`.
pub(crate) async fn write(fleet: Arc<Fleet>, pods: KubernetesSource, every: Duration) {
    let mut written: HashMap<String, u32> = HashMap::new();
    let mut problem = None;
    loop {
        tokio::time::sleep(every).await;
        let loads = load::of_active_nodes(&fleet).await;
        written.retain(|instance, _| loads.iter().any(|(node, _)| node.instance == *instance));
        let mut failed = None;
        for (node, load) in loads {
            let cost = cost(load.dialogs);
            if written.get(&node.instance) == Some(&cost) {
                continue;
            }
            match annotate(&pods, (&node.name, &node.instance), cost).await {
                Ok(()) => {
                    written.insert(node.instance, cost);
                }
                Err(error) => failed = Some(format!("{error:#}")),
            }
        }
        if failed != problem {
            if let Some(failed) = &failed {
                warn!(
                    "the deletion costs of pods cannot be written: {failed}; the role of the controller needs `patch` on pods"
                );
            } else {
                info!("the deletion costs of pods are written again");
            }
            problem = failed;
        }
    }
}

/// Sets the annotation of the pod with this name, if its UID is still the same.
async fn annotate(
    pods: &KubernetesSource,
    (name, uid): (&str, &str),
    cost: u32,
) -> anyhow::Result<()> {
    let target = format!("/api/v1/namespaces/{}/pods/{name}", pods.namespace);
    let patch =
        json!({ "metadata": { "uid": uid, "annotations": { ANNOTATION: cost.to_string() } } });
    let client = pods.client()?;
    client.merge(&target, patch.to_string(), LARGEST).await?;
    Ok(())
}

/// The cost of a number of calls; Kubernetes takes 32 bits with a sign.
#[expect(clippy::cast_sign_loss, reason = "no less than 0")]
fn cost(calls: f64) -> u32 {
    calls.round().clamp(0.0, f64::from(i32::MAX)) as u32
}
