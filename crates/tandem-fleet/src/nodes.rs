//! Questions to all nodes at once, over their admin interfaces.

use crate::client::{Client, ClientError};
use crate::members::Member;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;

/// Nodes that are asked at the same time.
const AT_ONCE: usize = 16;
/// Longest answer of a node, in bytes.
const LARGEST: usize = 16 << 20;

/// Why a node cannot be asked.
const NO_ADMIN: &str =
    "its admin interface is unknown: set the admin port of the source, or `admin` of the node";

/// How to use the nodes' admin interfaces.
#[derive(Clone)]
pub struct NodeAccess {
    /// Their token, if they require one.
    pub token: Option<String>,
    /// Time for an answer.
    pub timeout: Duration,
}

impl std::fmt::Debug for NodeAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.timeout.fmt(formatter) // Without the token.
    }
}

/// A node that did not answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unanswered {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) error: String,
}

/// The answers of the nodes that gave one, in the order of the nodes, and the other nodes.
#[derive(Debug)]
pub(crate) struct Answers<A> {
    pub(crate) answers: Vec<(Member, A)>,
    pub(crate) unanswered: Vec<Unanswered>,
}

impl NodeAccess {
    /// Asks each of these nodes.
    pub(crate) async fn ask<A, F>(
        &self,
        nodes: &[Member],
        question: impl Fn(Client) -> F,
    ) -> Answers<A>
    where
        F: Future<Output = Result<A, String>>,
    {
        let mut asked = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (node, question) = (node.clone(), self.client(node).map(&question));
            asked.push(async move {
                let answer = match question {
                    Some(answer) => answer.await,
                    None => Err(NO_ADMIN.to_owned()),
                };
                (node, answer)
            });
        }
        let answered: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut answers = Answers {
            answers: Vec::new(),
            unanswered: Vec::new(),
        };
        for (node, answer) in answered {
            match answer {
                Ok(answer) => answers.answers.push((node, answer)),
                Err(error) => answers.unanswered.push(Unanswered {
                    instance: node.instance,
                    name: node.name,
                    error,
                }),
            }
        }
        answers
    }

    fn client(&self, node: &Member) -> Option<Client> {
        let admin = node.admin?;
        Some(Client::plain(
            admin.to_string(),
            self.token.clone(),
            self.timeout,
        ))
    }
}

/// The result of a JSON-RPC call.
pub(crate) async fn call(client: Client, method: &str, params: Value) -> Result<Value, String> {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = client.post("/rpc", call.to_string(), LARGEST).await;
    let answer = answer.map_err(|error: ClientError| error.to_string())?;
    let mut answer: Value =
        serde_json::from_slice(&answer).map_err(|error| format!("{method}: {error}"))?;
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(format!(
            "{method}: {}",
            answer["error"]["message"].as_str().unwrap_or("no result")
        )),
    }
}

/// The page of metrics.
pub(crate) async fn metrics(client: Client) -> Result<String, String> {
    let page = client
        .text("/metrics", LARGEST)
        .await
        .map_err(|error| error.to_string())?;
    String::from_utf8(page.into()).map_err(|error| error.to_string())
}
