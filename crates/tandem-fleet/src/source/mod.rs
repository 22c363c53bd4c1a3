//! Where the members come from. A source sends the whole list each time; it never sends a part.

mod dns;
mod endpoint_slices;
mod kubernetes;

pub use dns::DnsSource;
pub use kubernetes::KubernetesSource;

use crate::members::Member;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc;

/// What a source has found: all nodes, or why it does not know.
pub type Found = Result<Vec<Member>, String>;

/// Time until a failed source is asked again.
pub(crate) const RETRY: Duration = Duration::from_secs(2);

/// Where the members come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Operators and hooks add them.
    Api,
    /// The configuration lists them.
    Static(Vec<Member>),
    /// The name of a headless Service, or any other name.
    Dns(DnsSource),
    /// The `EndpointSlices` of a Service.
    Kubernetes(KubernetesSource),
}

impl Source {
    /// The word in messages and metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Static(_) => "static",
            Self::Dns(_) => "dns",
            Self::Kubernetes(_) => "kubernetes",
        }
    }

    /// Sends what the source says, now and when it changes, until the receiver is gone.
    pub(crate) async fn follow(self, found: mpsc::Sender<Found>) {
        match self {
            Self::Api => found.closed().await,
            Self::Static(members) => {
                let _ = found.send(Ok(members)).await;
                found.closed().await;
            }
            Self::Dns(source) => source.follow(found).await,
            Self::Kubernetes(source) => source.follow(found).await,
        }
    }
}

/// The admin interface of a node that has it at the usual port.
pub(crate) fn admin(ip: IpAddr, port: Option<u16>) -> Option<SocketAddr> {
    port.map(|port| SocketAddr::new(ip, port))
}
