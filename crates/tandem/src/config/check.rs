//! Checks across keys: combinations that are invalid although each value is valid.
use super::document::Document;
use super::routing_check::routing;
use super::sections::{Balancer, Configuration};
use super::values::Setting;
use super::values::keyword::{Challengeable, Durability, Keyword};
use sip_elements::ChallengedMethods;
use std::time::Duration;

/// The longest interval in which the nodes of a fleet exchange bindings. Of two changes of a binding within it, the order may be lost.
const LONGEST_SHARED_INTERVAL: Duration = Duration::from_secs(1);

/// Reports invalid combinations of keys.
pub fn together(configuration: &Configuration, document: &Document<'_>) {
    listeners(configuration, document);
    kamailio(configuration, document);
    shared_locations(configuration, document);
    shared_dialogs(configuration, document);
    certificates(configuration, document);
    lifetimes(configuration, document);
    timers(configuration, document);
    session_timers(configuration, document);
    admin(configuration, document);
    repetitions(configuration, document);
    routing(configuration, document);
}

/// Checks combinations of keys of an edge.
pub fn balancer(balancer: &Balancer, document: &Document<'_>) {
    let shared = balancer.shared();
    listeners(&shared, document);
    certificates(&shared, document);
    admin(&shared, document);
    nodes(balancer, document);
}

/// The nodes are in one place, and their listeners exist.
fn nodes(balancer: &Balancer, document: &Document<'_>) {
    match (&balancer.nodes.file, balancer.member.len()) {
        (Some(_), 1..) => document.report_at(
            "nodes.file",
            "`nodes.file` and `[[member]]` exclude each other: remove one".to_owned(),
        ),
        (None, 0) if balancer.nodes.controller.is_none() => document.report_at(
            "member",
            "there is no node: add a `[[member]]` section for each node, or set `nodes.file` or `nodes.controller`".to_owned(),
        ),
        _ => {}
    }
    for (index, address) in balancer.nodes.listeners.iter().enumerate() {
        let is_there = |listen: &super::Listen| listen.address == *address;
        if !balancer.listen.iter().any(is_there) {
            let place = format!("nodes.listeners[{index}]");
            let problem = format!(
                "`{place}`: no `[[listen]]` section has the address {address}: add one, with UDP"
            );
            document.report_at(&place, problem);
        }
    }
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

/// What the database of a Kamailio, which is only read, cannot do.
fn kamailio(configuration: &Configuration, document: &Document<'_>) {
    if configuration.kamailio().is_none() {
        return;
    }
    if configuration.database.url.file().is_some() {
        document.report_at(
            "database.schema",
            "`database.schema = \"kamailio\"`: requires the PostgreSQL or MySQL database of Kamailio in `database.url`".to_owned(),
        );
    }
    let persist = configuration.dialogs.persist && document.is_given("dialogs.persist");
    let commit = configuration.location.durability == Durability::Commit;
    let rows = [
        (
            configuration.records.database,
            "records.database = true",
            "write records to `records.file`",
        ),
        (persist, "dialogs.persist = true", "remove this key"),
        (
            commit,
            "location.durability = \"commit\"",
            "remove this key",
        ),
    ];
    for (wrong, setting, remedy) in rows {
        if let (true, Some((path, _))) = (wrong, setting.split_once(" = ")) {
            document.report_at(
                path,
                format!("`{setting}`: not possible with `database.schema = \"kamailio\"`, which writes nothing to the database: {remedy}"),
            );
        }
    }
}

/// What bindings that a fleet shares do not go with.
fn shared_locations(configuration: &Configuration, document: &Document<'_>) {
    let location = &configuration.location;
    if location.store.redis().is_none() {
        return;
    }
    if configuration.kamailio().is_some() {
        document.report_at(
            "location.store",
            "`location.store = \"redis://…\"`: not possible with `database.schema = \"kamailio\"`: registrations at Kamailio are read \
             into the memory of one server"
                .to_owned(),
        );
    }
    if location.save_interval > LONGEST_SHARED_INTERVAL {
        document.report_at(
            "location.save_interval",
            format!(
                "`location.save_interval = \"{}\"`: must be at most {} with `location.store = \"redis://…\"`: other nodes learn of a \
                 registration after this time",
                location.save_interval.to_prose(),
                LONGEST_SHARED_INTERVAL.to_prose()
            ),
        );
    }
}

/// What calls that a fleet shares do not go with.
fn shared_dialogs(configuration: &Configuration, document: &Document<'_>) {
    let dialogs = &configuration.dialogs;
    if dialogs.store.redis().is_none() {
        return;
    }
    let problem = if configuration.kamailio().is_some() {
        "`database.schema = \"kamailio\"`: nodes need the secret of a database of Tandem to know the calls of other nodes"
    } else if !dialogs.persist {
        "`dialogs.persist = false`: remove one of both keys"
    } else {
        return;
    };
    document.report_at(
        "dialogs.store",
        format!("`dialogs.store = \"redis://…\"`: not possible with {problem}"),
    );
}

/// The certificate that a listener for TLS requires.
fn certificates(configuration: &Configuration, document: &Document<'_>) {
    for (index, listen) in configuration.listen.iter().enumerate() {
        if listen.transport.is_secure() && configuration.certificate.is_empty() {
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
    let at = blamed(
        document,
        &format!("registrar.{higher}"),
        &format!("registrar.{lower}"),
    );
    let [min, default, max] = [min, default, max].map(|lifetime| lifetime.to_prose());
    document.report_at(
        &at,
        format!("`{at}`: min_expires ({min}), default_expires ({default}) and max_expires ({max}) must satisfy min ≤ default ≤ max"),
    );
}

fn timers(configuration: &Configuration, document: &Document<'_>) {
    let timers = &configuration.timers;
    if timers.t1 > timers.t2 {
        let at = blamed(document, "timers.t2", "timers.t1");
        let (t1, t2) = (timers.t1.to_prose(), timers.t2.to_prose());
        document.report_at(
            &at,
            format!("`{at}`: t1 ({t1}) must not be longer than t2 ({t2}), the maximum retransmission interval"),
        );
    }
}

/// Intervals that contradict each other, or that let the proof of a dialog expire before the first refresh.
fn session_timers(configuration: &Configuration, document: &Document<'_>) {
    let timers = &configuration.session_timers;
    let lifetime = configuration.proxy.dialog_lifetime;
    if !timers.enabled {
        return;
    }
    if timers.min_interval > timers.interval {
        let at = blamed(
            document,
            "session_timers.interval",
            "session_timers.min_interval",
        );
        let [shortest, interval] =
            [timers.min_interval, timers.interval].map(|interval| interval.to_prose());
        document.report_at(
            &at,
            format!(
                "`{at}`: min_interval ({shortest}) must not be longer than interval ({interval})"
            ),
        );
    }
    if timers.interval > lifetime {
        let at = blamed(document, "session_timers.interval", "proxy.dialog_lifetime");
        let [interval, lifetime] = [timers.interval, lifetime].map(|time| time.to_prose());
        document.report_at(
            &at,
            format!(
                "`{at}`: session_timers.interval ({interval}) must not be longer than proxy.dialog_lifetime ({lifetime}), after which \
                 refreshes are rejected"
            ),
        );
    }
}

/// The path to report of two that contradict each other: the second only if the first has its default.
fn blamed(document: &Document<'_>, first: &str, second: &str) -> String {
    let paths = [first, second];
    let given = paths.into_iter().find(|path| document.is_given(path));
    given.unwrap_or(first).to_owned()
}

fn repetitions(configuration: &Configuration, document: &Document<'_>) {
    repeated("admin.hosts", &configuration.admin.hosts, document);
    repeated("domains", &configuration.domains, document);
    if let ChallengedMethods::Listed(methods) = &configuration.auth.challenge {
        let methods: Vec<_> = methods.iter().copied().map(Challengeable).collect();
        repeated("auth.challenge", &methods, document);
    }
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
