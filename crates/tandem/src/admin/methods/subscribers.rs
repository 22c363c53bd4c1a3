//! The method `subscribers.count`.
use crate::control::Running;
use serde_json::{Value, json};
use tandem_http::rpc::{Arguments, Failure};

pub(super) async fn count(running: &Running, arguments: Arguments) -> Result<Value, Failure> {
    let domain = arguments.text("domain").map(str::to_ascii_lowercase);
    let count = running
        .store
        .subscribers()
        .count(domain.as_deref())
        .await
        .map_err(Failure::internal)?;
    Ok(json!({ "subscribers": count }))
}
