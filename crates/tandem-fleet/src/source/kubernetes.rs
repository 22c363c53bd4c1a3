//! Members from Kubernetes: lists and watches the `EndpointSlices` of a Service with the pod's service account.

use super::endpoint_slices::{EndpointSlice, Reading, SliceList, WatchEvent};
use super::{Found, RETRY};
use crate::client::{Client, ClientError};
use crate::tls;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest list, and longest line of a watch, in bytes. A slice has at most 1,000 endpoints of about 500 bytes.
const LARGEST: usize = 16 << 20;
/// How long the API server keeps a watch, in seconds. Then everything is listed again.
const WATCHED: u64 = 240;
/// Pause after a watch that ended as it should.
const BETWEEN_WATCHES: Duration = Duration::from_millis(100);
/// Time for the API server to answer a list. In a watch it says something at least this often after its end.
const PATIENCE: Duration = Duration::from_secs(15);

/// The `EndpointSlices` of a Service.
#[derive(Clone, Debug)]
pub struct KubernetesSource {
    /// The API server: `https://kubernetes.default.svc`.
    pub server: String,
    /// The namespace of the Service.
    pub namespace: String,
    /// The Service. It should have `publishNotReadyAddresses` off.
    pub service: String,
    /// The name of the SIP port in the Service.
    pub port_name: String,
    /// The port of the nodes' admin interfaces.
    pub admin_port: Option<u16>,
    /// The file with the token of the service account. It is read again for each request, because Kubernetes renews it.
    pub token_file: Option<PathBuf>,
    /// The file with the certificate authority of the API server.
    pub authority_file: Option<PathBuf>,
    /// How often the live calls of each pod become its deletion cost, at most. `None`: never.
    pub deletion_costs: Option<Duration>,
}

impl KubernetesSource {
    pub(crate) async fn follow(self, found: mpsc::Sender<Found>) {
        while !found.is_closed() {
            let ended = self.list_and_watch(&found).await;
            let pause = match ended {
                Ok(()) => BETWEEN_WATCHES,
                Err(problem) => {
                    // If the receiver is gone, the loop ends.
                    let _ = found.send(Err(format!("Kubernetes: {problem:#}"))).await;
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Lists all slices, then follows their changes until the watch ends.
    async fn list_and_watch(&self, found: &mpsc::Sender<Found>) -> anyhow::Result<()> {
        let client = self.client()?;
        let Self {
            namespace, service, ..
        } = self;
        let target = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{service}"
        );
        let list = client.text(&target, LARGEST).await?;
        let list: SliceList = serde_json::from_slice(&list)?;
        let mut slices = Slices::default();
        for slice in list.items {
            slices.put(slice);
        }
        let mut sent = self.members(&slices);
        if found.send(Ok(sent.clone())).await.is_err() {
            return Ok(());
        }
        let version = list.metadata.resource_version;
        let target = format!(
            "{target}&watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCHED}&resourceVersion={version}"
        );
        let mut lines = Lines::new(client.stream(&target).await?);
        while let Some(line) = lines.next(&client).await? {
            if !slices.apply(&line)? {
                break;
            }
            let members = self.members(&slices);
            if members != sent {
                sent.clone_from(&members);
                if found.send(Ok(members)).await.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let tls = tls::client(self.authority_file.as_deref())?;
        let token = self
            .token_file
            .as_deref()
            .map(std::fs::read_to_string)
            .transpose()?;
        let token = token.map(|token| token.trim().to_owned());
        Ok(Client::new(&self.server, tls, token, PATIENCE)?)
    }

    fn members(&self, slices: &Slices) -> Vec<crate::members::Member> {
        let reading = Reading {
            port_name: &self.port_name,
            admin_port: self.admin_port,
        };
        reading.members(slices.0.values())
    }
}

/// The slices of the Service by name.
#[derive(Debug, Default)]
struct Slices(BTreeMap<String, EndpointSlice>);

impl Slices {
    fn put(&mut self, slice: EndpointSlice) {
        self.0.insert(slice.metadata.name.clone(), slice);
    }

    /// Applies a line of a watch. Returns false if the slices must be listed again.
    fn apply(&mut self, line: &[u8]) -> serde_json::Result<bool> {
        let event: WatchEvent = serde_json::from_slice(line)?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => self.put(serde_json::from_value(event.object)?),
            "DELETED" => {
                let slice: EndpointSlice = serde_json::from_value(event.object)?;
                self.0.remove(&slice.metadata.name);
            }
            "BOOKMARK" => {}
            // The version is too old, for example.
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The lines of a streamed body.
struct Lines {
    body: Incoming,
    read: Vec<u8>,
}

impl Lines {
    const fn new(body: Incoming) -> Self {
        Self {
            body,
            read: Vec::new(),
        }
    }

    /// The next line without its end; `None` at the end of the stream.
    async fn next(&mut self, client: &Client) -> Result<Option<Vec<u8>>, ClientError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self
                .read
                .iter()
                .skip(searched)
                .position(|byte| *byte == b'\n')
            {
                let rest = self.read.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.read.len();
            if searched > LARGEST {
                return Err(
                    client.broken(format!("a line of the watch has more than {LARGEST} bytes"))
                );
            }
            let within = Duration::from_secs(WATCHED) + PATIENCE;
            let frame = timeout(within, self.body.frame()).await;
            match frame.map_err(|_| client.broken("the watch is silent"))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(client.broken(error)),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.read.extend_from_slice(data);
                    }
                }
            }
        }
    }
}
