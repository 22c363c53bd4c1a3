//! Reload: reads the configuration file and its certificates again, and applies all changes or none.
use super::order::Undelivered;
use super::running::Running;
use super::service_manager;
use super::state::Control;
use crate::config::{self, Changes, Configuration, Mistakes};
use crate::warnings::dangerous_settings;
use sip_runtime::tls::{LoadErrors, TlsContext};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Why a reload was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The server runs without a configuration file.
    #[error("the server was started without --config: no file to reload")]
    NoFile,
    /// The file has errors.
    #[error("nothing changed: the file has errors:\n{0}")]
    Mistakes(Mistakes),
    /// The TLS files that the configuration names have errors.
    #[error("nothing changed: certificates have errors:\n{0}")]
    Certificates(LoadErrors),
    /// The trusted peers that the database names could not be read.
    #[error("nothing changed: {0}")]
    Database(String),
    /// The routing policy has errors, such as wrong rows of prefixes.
    #[error("nothing changed: the routing has errors:\n{}", .0.join("\n"))]
    Routing(Vec<String>),
    /// These keys cannot change while the server runs.
    #[error(
        "nothing changed: {} cannot change while the server runs; restart the server, or revert {}",
        quoted(.0),
        pronoun(.0)
    )]
    NeedsRestart(Vec<String>),
    /// The workers not named here have the new settings. The next reload sends them to all workers again, whether or not the file has
    /// changed since.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
}

fn quoted(keys: &[String]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}

const fn pronoun(keys: &[String]) -> &'static str {
    if keys.len() == 1 { "it" } else { "them" }
}

impl Control {
    /// Reads the file and its certificates again, and applies all changes or none. Returns the keys that changed, including
    /// `certificate` if only the certificates' files changed.
    ///
    /// # Errors
    /// Why nothing changed; or [`ReloadError::Undelivered`].
    pub async fn reload(&self, running: &Running) -> Result<Vec<String>, ReloadError> {
        let _one_at_a_time = self.reloads.lock().await;
        service_manager::reloading();
        let result = self.try_reload(running).await;
        service_manager::reloaded(result.is_ok());
        let counter = match &result {
            Ok(_) => &self.counters.reloads,
            Err(_) => &self.counters.reload_failures,
        };
        counter.inc();
        match &result {
            Ok(changed) if changed.is_empty() => info!("reloaded: no changes"),
            Ok(changed) => info!("reloaded: {}", changed.join(", ")),
            Err(error) => error!("reload: {error}"),
        }
        if result.is_ok() {
            for warning in dangerous_settings(&self.configuration.load()) {
                warn!("{warning}");
            }
        }
        result
    }

    async fn try_reload(&self, running: &Running) -> Result<Vec<String>, ReloadError> {
        let file = self.file.as_deref().ok_or(ReloadError::NoFile)?;
        let mut fresh = config::load(Some(file)).map_err(ReloadError::Mistakes)?;
        let group = self.read_trusted_group(&fresh, &running.store).await;
        let group = group.map_err(|error| ReloadError::Database(error.to_string()))?;
        if let Some(group) = &group {
            group.add_to(&mut fresh);
        }
        let differences = self.configuration.load().differences(&fresh);
        let fixed: Vec<String> = differences
            .iter()
            .filter(|(_, changes)| *changes == Changes::Restart)
            .map(|(key, _)| key.clone())
            .collect();
        if !fixed.is_empty() {
            return Err(ReloadError::NeedsRestart(fixed));
        }
        let tls = load_certificates(running, &fresh).map_err(ReloadError::Certificates)?;
        let policy = self.next_policy(&fresh, running).await;
        let policy = policy.map_err(|error| ReloadError::Routing(error.lines()))?;
        let _no_other_orders = self.orders.lock().await;
        self.order_settings(running, &fresh, policy).await?;
        if let Some(log) = &self.log {
            log.set_level(fresh.log.level);
        }
        running.peer_policy.replace(config::peer_policy(&fresh));
        self.configuration.store(Arc::new(fresh));
        self.trusted_group.store(group);
        self.records.reopen();
        self.traces.reconfigure();
        let mut changed: Vec<String> = differences.into_iter().map(|(key, _)| key).collect();
        if replace_certificates(running, tls) && !changed.iter().any(|key| key == "certificate") {
            changed.push("certificate".to_owned());
        }
        Ok(changed)
    }
}

/// Loads the TLS context of a new configuration; `None` if it does not use TLS.
fn load_certificates(
    running: &Running,
    fresh: &Configuration,
) -> Result<Option<TlsContext>, LoadErrors> {
    let previous = running.tls.as_ref().map(|tls| tls.context());
    if previous.is_none() && !config::speaks_tls(fresh) {
        return Ok(None);
    }
    let context = config::tls_settings(fresh).load(previous.as_deref())?;
    Ok(Some(context))
}

/// Uses `fresh` for new handshakes. Returns whether the certificates changed.
fn replace_certificates(running: &Running, fresh: Option<TlsContext>) -> bool {
    let (Some(tls), Some(fresh)) = (&running.tls, fresh) else {
        return false;
    };
    let others = !fresh.certificates().same_as(tls.context().certificates());
    tls.replace(fresh);
    others
}
