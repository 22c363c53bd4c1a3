//! Logs changes of the registrations of this server at gateways.
use sip_elements::{RegistrationChange, RegistrationNotice};
use tracing::{info, warn};

/// Writes one line.
pub(super) fn write(notice: &RegistrationNotice) {
    let gateway = &notice.gateway;
    match notice.change {
        RegistrationChange::Registered(granted) => {
            info!(
                gateway,
                seconds = granted.as_secs(),
                "registered at a gateway"
            );
        }
        RegistrationChange::Failed { status, again_in } => {
            let reason = match status {
                Some(status) => format!("the response was {status}"),
                None => "no response".to_owned(),
            };
            let again_in = again_in.as_secs();
            warn!(gateway, reason, again_in, "cannot register at a gateway");
        }
        RegistrationChange::Leaving => {
            info!(gateway, "removing the registration at a gateway");
        }
    }
}
