//! Checks across keys: combinations that are invalid although each value is valid.
use super::keyword::{ClientCertificates, Transport};
use super::read::Document;
use super::sections::Configuration;
use super::value::Setting;

/// Reports invalid combinations of keys.
pub fn together(configuration: &Configuration, document: &Document<'_>) {
    listeners(configuration, document);
    certificates(configuration, document);
    lifetimes(configuration, document);
    admin(configuration, document);
    repetitions(configuration, document);
}

fn listeners(configuration: &Configuration, document: &Document<'_>) {
    for (index, listen) in configuration.listen.iter().enumerate() {
        let earlier = configuration.listen.iter().take(index);
        // With port 0, each listener gets a port of its own.
        let same = |other: &&super::Listen| {
            other.transport == listen.transport
                && other.address == listen.address
                && listen.address.port() != 0
        };
        if let Some(first) = earlier.into_iter().position(|other| same(&other)) {
            document.report_at(
                &format!("listen[{index}].address"),
                format!(
                    "`listen[{index}].address`: {} is already the address of listen[{first}]",
                    listen.address
                ),
            );
        }
    }
}

/// Certificates and authorities that TLS requires.
fn certificates(configuration: &Configuration, document: &Document<'_>) {
    for (index, certificate) in configuration.certificate.iter().enumerate() {
        let rows = [
            ("chain", &certificate.chain, "key"),
            ("key", &certificate.key, "chain"),
        ];
        for (name, value, other) in rows {
            if value.is_none() {
                document.report_at(
                    &format!("certificate[{index}].{other}"),
                    format!(
                        "`certificate[{index}].{name}` is missing: each [[certificate]] needs `chain` and `key`"
                    ),
                );
            }
        }
    }
    for (index, listen) in configuration.listen.iter().enumerate() {
        let needs_one = matches!(listen.transport, Transport::Tls | Transport::Wss);
        if needs_one && configuration.certificate.is_empty() {
            let word = listen.transport.word();
            document.report_at(
                &format!("listen[{index}].transport"),
                format!(
                    "`listen[{index}].transport = \"{word}\"`: requires a certificate: add a [[certificate]] section with `chain` and \
                     `key`; `tandem certificate self-signed` creates one for testing"
                ),
            );
        }
    }
    let tls = &configuration.tls;
    if tls.client_certificates != ClientCertificates::None && tls.client_ca.is_none() {
        document.report_at(
            "tls.client_certificates",
            format!(
                "`tls.client_certificates = \"{}\"`: requires `tls.client_ca`, the authorities that client certificates are verified against",
                tls.client_certificates.word()
            ),
        );
    }
}

/// Clients of the admin interface have full control, so clients on other machines must authenticate.
fn admin(configuration: &Configuration, document: &Document<'_>) {
    let admin = &configuration.admin;
    if tandem_http::is_beyond_loopback(admin.listen) && admin.token_file.is_none() {
        document.report_at(
            "admin.listen",
            format!(
                "`admin.listen = \"{}\"`: other machines can reach this address: set `admin.token_file`, or listen on 127.0.0.1 or [::1]",
                admin.listen
            ),
        );
    }
}

fn lifetimes(configuration: &Configuration, document: &Document<'_>) {
    let registrar = &configuration.registrar;
    let (min, default, max) = (
        registrar.min_expires,
        registrar.default_expires,
        registrar.max_expires,
    );
    let rows = [
        ("min_expires", min, "default_expires", default),
        ("default_expires", default, "max_expires", max),
        ("min_expires", min, "max_expires", max),
    ];
    let (lower, _, higher, _) = match rows.iter().find(|(_, low, _, high)| low > high) {
        Some(row) => *row,
        None => return,
    };
    // If the file contains only one of the two, report that one.
    let blamed = [higher, lower].map(|name| format!("registrar.{name}"));
    let at = blamed
        .iter()
        .find(|path| document.is_given(path))
        .unwrap_or(&blamed[0]);
    document.report_at(
        at,
        format!("`{at}`: min_expires ({min}), default_expires ({default}) and max_expires ({max}) must satisfy min ≤ default ≤ max"),
    );
}

fn repetitions(configuration: &Configuration, document: &Document<'_>) {
    repeated("admin.hosts", &configuration.admin.hosts, document);
    repeated("domains", &configuration.general.domains, document);
    let challenged = configuration.auth.challenge.listed().unwrap_or_default();
    repeated("auth.challenge", challenged, document);
    let stranger_methods = &configuration.proxy.stranger_methods;
    repeated("proxy.stranger_methods", stranger_methods, document);
    repeated("auth.algorithms", &configuration.auth.algorithms, document);
}

fn repeated<T: Setting + PartialEq>(path: &str, list: &[T], document: &Document<'_>) {
    for (index, element) in list.iter().enumerate() {
        if list.iter().take(index).any(|earlier| earlier == element) {
            let shown = element.to_toml().unwrap_or_default();
            document.report_at(path, format!("`{path}`: {shown} is listed twice"));
        }
    }
}
