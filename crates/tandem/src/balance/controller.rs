//! Follows the member set that a controller streams.
use super::nodes::{Nodes, listed};
use crate::config::FleetNodes;
use anyhow::{Context as _, anyhow, bail};
use http_body_util::BodyExt as _;
use sip_runtime::Handle;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{Control, Member};
use tandem_fleet::client::Client;
use tandem_fleet::members::{LONGEST_SET, MemberSet};
use tandem_http::Token;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

const WATCH: &str = "/v1/members/watch";
/// The time limit of a request.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest silence. The controller sends an empty line every five seconds.
const SILENCE: Duration = Duration::from_secs(15);
/// Waits between attempts: the first one, and the longest one.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A controller.
#[derive(Debug)]
pub(super) struct Controller {
    client: Client,
    /// The last set that it sent.
    last: Option<MemberSet>,
}

impl Controller {
    /// The controller of the configuration, if there is one.
    ///
    /// # Errors
    /// The token cannot be read.
    pub(super) fn new(nodes: &FleetNodes) -> anyhow::Result<Option<Self>> {
        let Some(url) = &nodes.controller else {
            return Ok(None);
        };
        let token = nodes.token_file.as_ref();
        let token = token.map(|file| Token::read_text(&file.0)).transpose();
        let token = token.context("`nodes.token_file`")?;
        Ok(Some(Self {
            client: Client::plain(url.authority(), token, PATIENCE),
            last: None,
        }))
    }

    /// Waits for the first set.
    pub(super) async fn first(&mut self) -> Vec<Member> {
        let mut wait = WAITS.0;
        loop {
            let body = self.client.text("/v1/members", LONGEST_SET).await;
            let set = body
                .map_err(anyhow::Error::new)
                .and_then(|body| Ok(MemberSet::parse(&body)?));
            match set {
                Ok(set) => {
                    let list = listed(&set);
                    self.last = Some(set);
                    return list;
                }
                Err(error) => warn!("no nodes from the controller yet: {error:#}"),
            }
            sleep(wait).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }

    /// Applies each set that the controller sends. While it is away, the edge keeps the last one.
    pub(super) async fn follow(mut self, nodes: Arc<Nodes>, handle: Handle<Control>) {
        let mut wait = WAITS.0;
        let mut is_away = false;
        loop {
            let mut heard = false;
            let Err(error) = self.stream(&nodes, &handle, &mut heard).await;
            if heard {
                (wait, is_away) = (WAITS.0, false);
            }
            if !is_away {
                warn!("the controller is away; the edge keeps its nodes: {error:#}");
                is_away = true;
            }
            sleep(wait).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }

    async fn stream(
        &mut self,
        nodes: &Nodes,
        handle: &Handle<Control>,
        heard: &mut bool,
    ) -> anyhow::Result<std::convert::Infallible> {
        let mut body = self.client.stream(WATCH).await?;
        let mut line = Vec::new();
        loop {
            let frame = timeout(SILENCE, body.frame()).await;
            let frame = frame.context("the controller is silent")?;
            let frame = frame.context("the controller has ended the stream")??;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LONGEST_SET {
                    bail!("a line of the controller is longer than {LONGEST_SET} bytes");
                }
                if line.last() != Some(&b'\n') {
                    continue;
                }
                if !*heard {
                    info!("the controller answers");
                }
                *heard = true;
                self.apply(line.trim_ascii(), nodes, handle)?;
                line.clear();
            }
        }
    }

    fn apply(
        &mut self,
        line: &[u8],
        nodes: &Nodes,
        handle: &Handle<Control>,
    ) -> anyhow::Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        let set = MemberSet::parse(line).map_err(|error| anyhow!("a set is refused: {error}"))?;
        if self.last.as_ref().is_none_or(|last| set.supersedes(last)) {
            nodes.replace(listed(&set), handle);
            self.last = Some(set);
        }
        Ok(())
    }
}
