//! The methods `config.show` and `config.reload`.
use crate::control::{Control, ReloadError, Running};
use serde_json::{Value, json};
use tandem_http::rpc::Failure;

pub(super) fn show(control: &Control) -> Result<Value, Failure> {
    let shown = control.configuration.load().shown();
    toml::from_str(&shown.to_toml()).map_err(Failure::internal)
}

pub(super) async fn reload(control: &Control, running: &Running) -> Result<Value, Failure> {
    let changed = control.reload(running).await.map_err(|error| match error {
        ReloadError::Mistakes(mistakes) => Failure {
            details: mistakes.to_string().lines().map(str::to_owned).collect(),
            ..Failure::refused("nothing changed: the file has errors")
        },
        ReloadError::Certificates(errors) => Failure {
            details: errors.to_string().lines().map(str::to_owned).collect(),
            ..Failure::refused("nothing changed: certificates have errors")
        },
        ReloadError::Routing(details) => Failure {
            details,
            ..Failure::refused("nothing changed: the routing has errors")
        },
        other => Failure::refused(other),
    })?;
    Ok(json!({ "changed": changed }))
}
