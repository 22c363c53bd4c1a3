//! The method `subscribers.count`.
use super::{Arguments, Failure};
use crate::serve::Control;
use serde_json::{Value, json};

pub(super) async fn count(control: &Control, arguments: Arguments) -> Result<Value, Failure> {
    let store = control
        .store()
        .ok_or_else(|| Failure::refused("the server is still starting"))?;
    let domain = arguments.text("domain").map(str::to_ascii_lowercase);
    let count = store
        .subscribers()
        .count(domain.as_deref())
        .await
        .map_err(Failure::internal)?;
    Ok(json!({ "subscribers": count }))
}
