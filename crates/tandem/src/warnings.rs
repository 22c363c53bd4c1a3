//! Settings that are allowed and dangerous. `tandem check` prints a warning for each, and `tandem serve` logs it.
use crate::config::Configuration;

/// Warnings about a configuration, for people.
pub(crate) fn dangerous_settings(configuration: &Configuration) -> Vec<&'static str> {
    let mut warnings = Vec::new();
    if configuration.auth.challenge.is_empty() {
        warnings.push(
            "digest authentication is off: anyone can register and call under any identity. Remove `auth.challenge` to require a password",
        );
    }
    if !configuration.tls.verify_servers {
        warnings.push(
            "TLS servers are not verified: anyone on the path can read and change all traffic. Remove `tls.verify_servers` to verify them",
        );
    }
    warnings
}
