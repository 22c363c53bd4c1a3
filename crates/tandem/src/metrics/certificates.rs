//! How long certificates last.
use super::Samples;
use sip_runtime::tls::SharedTls;
use std::fmt;
use std::time::SystemTime;

/// The samples of `tandem_certificate_expiry_seconds`, labelled with the first name and the file.
pub(crate) fn certificates(tls: Option<&SharedTls>, samples: &mut Samples<'_>) -> fmt::Result {
    let tls = tls.map(SharedTls::context);
    let now = SystemTime::now();
    for certificate in tls.iter().flat_map(|tls| tls.certificates().iter()) {
        let name = certificate.names().first().map_or("", String::as_str);
        let file = certificate.chain_file().display().to_string();
        let left = match certificate.not_after().duration_since(now) {
            Ok(left) => left.as_secs_f64(),
            Err(expired) => -expired.duration().as_secs_f64(),
        };
        samples.labelled(&[name, &file], left)?;
    }
    Ok(())
}
