//! The methods `config.show` and `config.reload`.
use super::Failure;
use crate::serve::{Control, Refused};
use serde_json::{Value, json};

pub(super) fn show(control: &Control) -> Result<Value, Failure> {
    toml::from_str(&control.configuration.load().to_toml()).map_err(Failure::internal)
}

pub(super) async fn reload(control: &Control) -> Result<Value, Failure> {
    let changed = control.reload().await.map_err(|error| match error {
        Refused::Mistakes(mistakes) => Failure {
            details: mistakes.to_string().lines().map(str::to_owned).collect(),
            ..Failure::refused("nothing changed: the file has errors")
        },
        Refused::Certificates(errors) => Failure {
            details: errors.to_string().lines().map(str::to_owned).collect(),
            ..Failure::refused("nothing changed: certificates have errors")
        },
        other => Failure::refused(other),
    })?;
    Ok(json!({ "changed": changed }))
}
