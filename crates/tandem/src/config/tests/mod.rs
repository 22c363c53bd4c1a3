//! Error messages for invalid files, and what valid files mean.

mod controller;
mod documents;
mod environment;
mod routing;
mod sections;

use super::*;
use sip_elements::{SessionTimerSettings, Settings};
use sip_message::digest::Algorithm;
use sip_runtime::{Clock, EventLoopKind};
use sip_transport::Protocol;
use std::time::Duration;

/// Parses a text without an environment.
fn parse(text: &str) -> Result<Configuration, Mistakes> {
    parse_with(text, &[]).map(|loaded| loaded.configuration)
}

/// Parses a text with an environment.
fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Mistakes> {
    let environment = variables.iter().copied().collect();
    super::parse(text, "t.toml", &environment)
}

/// All messages for a file, without its name.
fn mistakes(text: &str) -> Vec<String> {
    mistakes_with(text, &[])
}

/// All messages for a file and an environment, without the name of the file.
fn mistakes_with(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    match parse_with(text, variables) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes
            .to_string()
            .lines()
            .map(|line| line.strip_prefix("t.toml:").unwrap_or(line).to_owned())
            .collect(),
    }
}

/// Invalid files and the expected messages.
const WRONG: &[(&str, &[&str])] = &[
    (
        "[database]\nschema = \"kamailio\"",
        &[
            "2:10: `database.schema = \"kamailio\"`: requires the PostgreSQL or MySQL database of Kamailio in `database.url`",
        ],
    ),
    (
        "[database]\nurl = \"mysql://k@db/kamailio\"\nschema = \"kamailio\"\n[records]\ndatabase = true\n[dialogs]\npersist = true\n\
         [location]\ndurability = \"commit\"",
        &[
            "5:12: `records.database = true`: not possible with `database.schema = \"kamailio\"`, which writes nothing to the database: write \
             records to `records.file`",
            "7:11: `dialogs.persist = true`: not possible with `database.schema = \"kamailio\"`, which writes nothing to the database: remove \
             this key",
            "9:14: `location.durability = \"commit\"`: not possible with `database.schema = \"kamailio\"`, which writes nothing to the \
             database: remove this key",
        ],
    ),
    (
        "domain = [\"example.org\"]",
        &["1:1: unknown key `domain` above the first section: did you mean `domains`?"],
    ),
    (
        "[[listen]]\nadress = \"0.0.0.0:5060\"",
        &["2:1: unknown key `adress` in [[listen]]: did you mean `address`?"],
    ),
    (
        "[databse]\nurl = \"sqlite:x.db\"",
        &["1:2: unknown section [databse]: did you mean [database]?"],
    ),
    (
        "[proxy]\nt1 = 500",
        &["2:1: unknown key `t1` in [proxy]: it belongs in [timers]"],
    ),
    (
        "[log]\ncolour = true",
        &["2:1: unknown key `colour` in [log]: expected one of `level`, `format`, `calls`"],
    ),
    (
        "[node]\nname = \"sip 1\"",
        &[
            "2:8: `node.name = \"sip 1\"`: must be a name of 1 to 63 letters, digits, \"-\", \".\" and \"_\", such as \"sip-1\"",
        ],
    ),
    (
        "[workers]\ncount = 0",
        &["2:9: `workers.count = 0`: must be \"auto\" or a whole number from 1 to 256"],
    ),
    (
        "[workers]\ncount = \"4\"",
        &[
            "2:9: `workers.count = \"4\"`: must be \"auto\" or a whole number from 1 to 256 (remove the quotes)",
        ],
    ),
    (
        "domains = [\"example.org\", 5]",
        &[
            "1:27: `domains[1] = 5`: must be a domain name, such as \"example.org\" (put it in quotes)",
        ],
    ),
    (
        "domains = \"example.org\"",
        &[
            "1:11: `domains = \"example.org\"`: must be a list of domain names, at least one (put it in brackets)",
        ],
    ),
    (
        "domains = []",
        &["1:11: `domains = []`: must be a list of domain names, at least one"],
    ),
    (
        "domains = [\"sip:example.org\"]",
        &[
            "1:12: `domains[0] = \"sip:example.org\"`: must be a domain name, such as \"example.org\" (remove the scheme and the port)",
        ],
    ),
    (
        "[[listen]]\ntransport = \"UDP\"",
        &[
            "2:13: `listen[0].transport = \"UDP\"`: must be one of \"udp\", \"tcp\", \"tls\", \"ws\" or \"wss\" (did you mean \"udp\"?)",
        ],
    ),
    (
        "[[listen]]\naddress = \"::1\"",
        &[
            "2:11: `listen[0].address = \"::1\"`: must be an address and port, such as \"127.0.0.1:8060\" or \"[::1]:8060\" (an IPv6 address needs brackets and a port: \"[::1]:5060\")",
        ],
    ),
    (
        "[[listen]]\naddress = \"127.0.0.1:66000\"",
        &[
            "2:11: `listen[0].address = \"127.0.0.1:66000\"`: must be an address and port, such as \"127.0.0.1:8060\" or \"[::1]:8060\" (the highest port is 65535)",
        ],
    ),
    (
        "[admin]\nlisten = \"localhost:8060\"",
        &[
            "2:10: `admin.listen = \"localhost:8060\"`: must be an address and port, such as \"127.0.0.1:8060\" or \"[::1]:8060\" (use an IP address, not a name)",
        ],
    ),
    (
        "[[listen]]\naddress = \"127.0.0.1:5060\"\n[[listen]]\naddress = \"127.0.0.1:5060\"",
        &["4:11: `listen[1].address`: 127.0.0.1:5060 is already the address of listen[0]"],
    ),
    (
        "[auth]\nchallenge = [\"REGISTER\", \"INVTE\"]",
        &[
            "2:26: `auth.challenge[1] = \"INVTE\"`: must be one of \"REGISTER\", \"INVITE\", \"BYE\", \"OPTIONS\", \"MESSAGE\", \"SUBSCRIBE\", \"NOTIFY\", \"PUBLISH\", \"REFER\", \"INFO\", \"PRACK\" or \"UPDATE\" (did you mean \"INVITE\"?)",
        ],
    ),
    (
        "[auth]\nchallenge = \"INVITE\"",
        &[
            "2:13: `auth.challenge = \"INVITE\"`: must be \"all\" or a list of methods (\"REGISTER\", \"INVITE\", \"BYE\", \"OPTIONS\", \"MESSAGE\", \"SUBSCRIBE\", \"NOTIFY\", \"PUBLISH\", \"REFER\", \"INFO\", \"PRACK\" or \"UPDATE\") (put it in brackets)",
        ],
    ),
    (
        "[auth]\nalgorithms = [\"MD5\", \"MD5\"]",
        &["2:14: `auth.algorithms`: \"MD5\" is listed twice"],
    ),
    (
        "[auth]\nnonce_lifetime = \"300\"",
        &[
            "2:18: `auth.nonce_lifetime = \"300\"`: must be a duration (\"500ms\", \"5m\", \"1h 30m\") from 5s to 1day (time unit needed, for example 300sec or 300ms)",
        ],
    ),
    (
        "[registrar]\nmin_expires = \"2h\"",
        &[
            "2:15: `registrar.min_expires`: min_expires (2h), default_expires (1h) and max_expires (2h) must satisfy min ≤ default ≤ max",
        ],
    ),
    (
        "[database]\nurl = \"oracle://localhost/tandem\"",
        &[
            "2:7: `database.url = \"oracle://localhost/tandem\"`: must be a database URL, such as \"sqlite:tandem.db\" or \"postgres://tandem@db.example.org/tandem\" (only SQLite, PostgreSQL and MySQL or MariaDB are supported)",
        ],
    ),
    (
        "[database]\nurl = \"postgres://tandem:secret@db\"",
        &[
            "2:7: `database.url`: must be a database URL, such as \"sqlite:tandem.db\" or \"postgres://tandem@db.example.org/tandem\" (it names no database)",
        ],
    ),
    (
        "[trace]\nhep = \"192.0.2.5:9060\"",
        &[
            "2:7: `trace.hep = \"192.0.2.5:9060\"`: must be a collector, such as \"udp:192.0.2.5:9060\" (begin with udp:)",
        ],
    ),
    (
        "[trace]\nhep = \"udp:192.0.2.5\"",
        &[
            "2:7: `trace.hep = \"udp:192.0.2.5\"`: must be a collector, such as \"udp:192.0.2.5:9060\" (the port is missing, usually 9060)",
        ],
    ),
    (
        "[trace]\nhep = \"udp:homer.example.org:9060\"",
        &[
            "2:7: `trace.hep = \"udp:homer.example.org:9060\"`: must be a collector, such as \"udp:192.0.2.5:9060\" (use an IP address instead of a name, and a port)",
        ],
    ),
    (
        "[trace]\nhep = \"udp:0.0.0.0:9060\"",
        &[
            "2:7: `trace.hep = \"udp:0.0.0.0:9060\"`: must be a collector, such as \"udp:192.0.2.5:9060\" (it must be an address that packets can be sent to)",
        ],
    ),
    (
        "[events]\npublish = \"127.0.0.1:6379\"",
        &[
            "2:11: `events.publish = \"127.0.0.1:6379\"`: must be the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\"",
        ],
    ),
    (
        "[events]\npublish = \"http://:secret@cache:6379\"",
        &[
            "2:11: `events.publish`: must be the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\"",
        ],
    ),
    (
        "[events]\npublish = \"redis://:sec?ret@cache\"",
        &[
            "2:11: `events.publish`: must be the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\" (it has no parameters; write ? and # in a password as %3F and %23)",
        ],
    ),
    (
        "[events]\npublish = \"redis+unix:///run/r.sock?password=secret\"",
        &[
            "2:11: `events.publish`: must be the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\" (its parameters are db, user and pass)",
        ],
    ),
    (
        "[location]\nstore = \"redis://cache\"\nsave_interval = \"2s\"",
        &[
            "3:17: `location.save_interval = \"2s\"`: must be at most 1s with `location.store = \"redis://…\"`: other nodes learn of a registration after this time",
        ],
    ),
    (
        "[location]\nstore = \"redis://cache\"\n[database]\nurl = \"mysql://db/kamailio\"\nschema = \"kamailio\"",
        &[
            "2:9: `location.store = \"redis://…\"`: not possible with `database.schema = \"kamailio\"`: registrations at Kamailio are read into the memory of one server",
        ],
    ),
    (
        "[location]\nstore = \"valkey://localhost\"",
        &[
            "2:9: `location.store = \"valkey://localhost\"`: must be \"memory\", or the URL of a Redis or Valkey server, such as \"redis://127.0.0.1:6379/0\", \"redis+unix:///run/redis/redis.sock\" or \"redis+sentinel://s-1,s-2,s-3/primary\" (write redis:// for a Valkey server, too)",
        ],
    ),
    (
        "[proxy]\noutbound = \"192.0.2.9:5060\"",
        &[
            "2:12: `proxy.outbound = \"192.0.2.9:5060\"`: must be a SIP URI, such as \"sip:192.0.2.9:5060\" or \"sip:trunk.example.net;transport=tcp\" (add the scheme: \"sip:192.0.2.9:5060\")",
        ],
    ),
    (
        "[proxy]\ntrusted_peers = [\"192.0.2.7/24\"]",
        &[
            "2:18: `proxy.trusted_peers[0] = \"192.0.2.7/24\"`: must be a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\" (the network that contains 192.0.2.7 is \"192.0.2.0/24\")",
        ],
    ),
    (
        "[proxy]\nedge_proxies = [\"192.0.2.0/33\"]\noff_limits = [\"10.0.0.1:5060\"]",
        &[
            "2:17: `proxy.edge_proxies[0] = \"192.0.2.0/33\"`: must be a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\" (the prefix length must be from 0 to 32)",
            "3:15: `proxy.off_limits[0] = \"10.0.0.1:5060\"`: must be a network, such as \"192.0.2.0/24\", \"2001:db8::/32\" or \"192.0.2.7\" (remove the port)",
        ],
    ),
    (
        "[proxy]\nrecord_route = \"true\"",
        &["2:16: `proxy.record_route = \"true\"`: must be true or false (remove the quotes)"],
    ),
    (
        "[workers]\nevent_loop = \"kqueue\"",
        &[
            "2:14: `workers.event_loop = \"kqueue\"`: must be one of \"auto\", \"epoll\", \"poll\" or \"io_uring\"",
        ],
    ),
    (
        "[[listen]]\ntransport = \"tls\"",
        &[
            "2:13: `listen[0].transport = \"tls\"`: requires a certificate: add a [[certificate]] section with `chain` and `key`; `tandem certificate self-signed` creates one for testing",
        ],
    ),
    (
        "[[certificate]]\nchain = \"a.pem\"",
        &[
            "1:1: `certificate[0].key` is missing: each [[certificate]] requires it: a file path, such as \"/etc/tandem/chain.pem\"",
        ],
    ),
    (
        "[certificate]\nchain = \"a.pem\"",
        &["1:1: write the section `certificate` as [[certificate]]"],
    ),
    (
        "[[certificate]]\nchain = \"\"\nkey = \"a.key\"",
        &[
            "2:9: `certificate[0].chain = \"\"`: must be a file path, such as \"/etc/tandem/chain.pem\"",
        ],
    ),
    (
        "[tls]\nmin_version = 1.2",
        &["2:15: `tls.min_version = 1.2`: must be one of \"1.2\" or \"1.3\" (put it in quotes)"],
    ),
    (
        "[tls]\nclient_certificates = \"required\"",
        &[
            "2:23: `tls.client_ca` is missing: `client_certificates = \"required\"` requires it: a file path, such as \"/etc/tandem/chain.pem\"",
        ],
    ),
    (
        "[tls]\nclient_certificates = \"none\"\nclient_ca = \"ca.pem\"",
        &[
            "3:1: unknown key `client_ca` in [tls] with `client_certificates = \"none\"`: it requires `client_certificates = \"optional\"` or `client_certificates = \"required\"`",
        ],
    ),
    (
        "[tls]\nclient_ca = \"ca.pem\"",
        &[
            "2:1: unknown key `client_ca` in [tls]: it requires `client_certificates = \"optional\"` or `client_certificates = \"required\"`",
        ],
    ),
    (
        "[[lisen]]\naddress = \"127.0.0.1:5060\"",
        &["1:3: unknown section [[lisen]]: did you mean [[listen]]?"],
    ),
    (
        "[timers]\nt1 = \"5s\"",
        &[
            "2:6: `timers.t1`: t1 (5s) must not be longer than t2 (4s), the maximum retransmission interval",
        ],
    ),
    (
        "[session_timers]\nmin_interval = \"89s\"",
        &[
            "2:16: `session_timers.min_interval = \"89s\"`: must be a duration (\"500ms\", \"5m\", \"1h 30m\") from 1m 30s to 1day",
        ],
    ),
    (
        "[session_timers]\nmin_interval = \"31m\"",
        &[
            "2:16: `session_timers.min_interval`: min_interval (31m) must not be longer than interval (30m)",
        ],
    ),
    (
        "[proxy]\ndialog_lifetime = \"10m\"",
        &[
            "2:19: `proxy.dialog_lifetime`: session_timers.interval (30m) must not be longer than proxy.dialog_lifetime (10m), after which refreshes are rejected",
        ],
    ),
    (
        "[timers]\nt1 = 500",
        &[
            "2:6: `timers.t1 = 500`: must be a duration (\"500ms\", \"5m\", \"1h 30m\") from 10ms to 10s (add a unit: \"500s\")",
        ],
    ),
    (
        "[connections]\naliases = \"nobody\"",
        &[
            "2:11: `connections.aliases = \"nobody\"`: must be one of \"none\", \"certified\" or \"all\"",
        ],
    ),
    (
        "listen = \"udp\"",
        &["1:10: `listen = \"udp\"`: must be a section that begins with [[listen]]"],
    ),
    (
        "[listen]\ntransport = \"udp\"",
        &["1:1: write the section `listen` as [[listen]]"],
    ),
    (
        "[[workers]]\ncount = 1",
        &["1:1: write the section `workers` as [workers]"],
    ),
    (
        "[workers]\ncout = 2\npin = 1\n[limits]\nretry_after = 0",
        &[
            "2:1: unknown key `cout` in [workers]: did you mean `count`?",
            "3:7: `workers.pin = 1`: must be a list of whole numbers (put it in brackets)",
            "5:15: `limits.retry_after = 0`: must be a whole number from 1 to 3600",
        ],
    ),
];

#[test]
fn every_mistake_is_reported_with_its_position_its_value_and_what_is_allowed() {
    for (text, expected) in WRONG {
        assert_eq!(mistakes(text), *expected, "for\n{text}");
    }
}

#[test]
fn broken_toml_is_reported_with_its_position_and_without_guesses() {
    let found = mistakes("[workers]\ncount = = 2\nnonsense = 1");
    assert!(
        found.iter().all(|line| line.contains("invalid TOML")),
        "{found:?}"
    );
    assert!(
        found.first().is_some_and(|line| line.starts_with("2:9:")),
        "{found:?}"
    );
}

#[test]
fn a_key_given_twice_is_refused() {
    let found = mistakes("[workers]\ncount = 1\ncount = 2");
    assert_eq!(found, ["3:1: invalid TOML: duplicate key"]);
}

#[test]
fn an_empty_file_means_the_defaults_and_two_listeners() {
    let configuration = parse("").expect("the defaults are right");
    let tcp = Listen {
        transport: Protocol::Tcp,
        ..Listen::default()
    };
    assert_eq!(configuration.listen, [Listen::default(), tcp]);
    assert_eq!(
        configuration.domains,
        [DomainName("tandem.localhost".to_owned())]
    );
    assert_eq!(configuration, Configuration::default());
}

#[test]
fn the_defaults_are_the_settings_that_tests_and_fuzzing_use() {
    let configuration = parse("").expect("the defaults are right");
    let listeners = listeners(&configuration).expect("there are addresses");
    let domains = [configuration.domains[0].0.clone()];
    assert_eq!(
        format!("{:#?}", settings(&configuration, &listeners)),
        format!("{:#?}", Settings::new(&domains, listeners))
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = load(Some(Path::new("/nowhere/tandem.toml")))
        .expect_err("it is not there")
        .to_string();
    assert!(
        missing.starts_with("/nowhere/tandem.toml: cannot be read: No such file"),
        "{missing}"
    );
}

#[test]
fn a_next_hop_is_a_server_by_address_or_name() {
    let read = |uri: &str| parse(&format!("[proxy]\noutbound = \"{uri}\""));
    for uri in [
        "sip:192.0.2.9:5080",
        "sip:trunk.example.net",
        "sip:trunk.example.net:5070;transport=tcp",
        "sips:[2001:db8::1];transport=ws",
    ] {
        let found = read(uri).expect(uri).proxy.outbound.map(|hop| hop.uri());
        assert_eq!(found.as_deref(), Some(uri));
    }
    for (uri, hint) in [
        (
            "sip:trunk.example.net;transport=pigeon",
            "the transport must be udp",
        ),
        (
            "sip:trunk.example.net;lr",
            "all parameters except `transport`",
        ),
        ("sip:bob@trunk.example.net", "remove the user"),
        ("tel:+1555", "must be a SIP URI"),
    ] {
        let mistakes = read(uri).expect_err(uri).to_string();
        assert!(mistakes.contains(hint), "{mistakes}");
    }
}

#[test]
fn values_of_every_type_are_read() {
    let text = r#"
        domains = ["Example.ORG", "example.net."]
        server_header = ""
        [[listen]]
        address = "[::1]:5070"
        advertise = "sip.example.org"
        [workers]
        count = 2
        event_loop = "poll"
        [auth]
        challenge = []
        algorithms = ["MD5"]
        nonce_lifetime = "1m 30s"
        [proxy]
        foreign = "relay"
        strangers = "refuse"
        stranger_methods = ["INVITE", "OPTIONS"]
        outbound = "sip:[2001:db8::1]"
        no_answer = "2500ms"
        max_ringing = "4m"
        trusted_peers = ["192.0.2.7", "2001:db8::/32"]
        off_limits = ["169.254.0.0/16"]
        [dialogs]
        bye_at_end = true
        [limits]
        dialogs = 1234
        [log]
        level = "debug"
        format = "json"
        calls = "ended"
    "#;
    let read = parse(text).expect("it is right");
    assert_eq!(
        read.domains,
        ["example.org", "example.net"].map(|name| DomainName(name.to_owned()))
    );
    assert_eq!(read.server_header, "");
    assert_eq!(read.listen[0].address.to_string(), "[::1]:5070");
    assert_eq!(
        read.listen[0].advertise,
        Some(Advertised("sip.example.org".to_owned()))
    );
    assert_eq!(read.workers.count.resolve(), 2);
    assert_eq!(read.auth.nonce_lifetime.as_secs(), 90);
    assert!(read.auth.challenge.is_empty());
    assert_eq!(
        read.proxy.outbound.map(|hop| hop.uri()).as_deref(),
        Some("sip:[2001:db8::1]")
    );
    assert_eq!(read.proxy.no_answer.as_millis(), 2500);
    let settings = settings(&parse(text).expect("it is right"), &[]);
    assert_eq!(settings.proxy.max_ringing.as_secs(), 240);
    assert_eq!(settings.domains.default_name(), "example.org");
    assert_eq!(settings.proxy.foreign, sip_elements::Foreign::Relay);
    assert_eq!(settings.proxy.strangers, sip_elements::Strangers::Refuse);
    assert_eq!(
        settings.proxy.stranger_methods,
        [sip_message::Method::Invite, sip_message::Method::Options]
    );
    assert_eq!(settings.algorithms, [Algorithm::Md5]);
    let trusts = |peer: &str| {
        let peer = peer.parse().expect("an address");
        settings.proxy.trusted_peers.contains(peer)
    };
    assert!(trusts("192.0.2.7") && trusts("2001:db8::9") && !trusts("192.0.2.8"));
    let metadata = "169.254.169.254".parse().expect("an address");
    assert!(settings.proxy.off_limits.contains(metadata));
    assert!(settings.proxy.edge_proxies.is_empty());
    assert!(settings.dialogs.bye_at_end);
    assert!(settings.dialogs.records, "for the lines of the log");
    assert_eq!(settings.limits.dialogs, 1234);
}

#[test]
fn a_node_has_the_name_of_the_file_or_of_the_environment_or_that_of_earlier_databases() {
    let name = |text, variables: &[(&str, &str)]| {
        let loaded = parse_with(text, variables).expect("right");
        loaded.configuration.node.name.0.to_string()
    };
    let (file, variable) = ("[node]\nname = \"sip-1\"", ("TANDEM_NODE_NAME", "sip-2"));
    assert_eq!(name("", &[]), "tandem");
    assert_eq!(name(file, &[]), "sip-1");
    assert_eq!(name(file, &[variable]), "sip-2");
}

#[test]
fn session_timers_need_their_switch_and_the_record_route() {
    let read = |text: &str| settings(&parse(text).expect(text), &[]).session_timers;
    let text = "[session_timers]\ninterval = \"20m\"\nmin_interval = \"2m\"";
    let expected = SessionTimerSettings {
        interval: Duration::from_secs(1_200),
        min_interval: Duration::from_secs(120),
    };
    assert_eq!(read(text), Some(expected));
    assert_eq!(read("[session_timers]\nenabled = false"), None);
    assert_eq!(read("[proxy]\nrecord_route = false"), None);
    let off = "[session_timers]\nenabled = false\n[proxy]\ndialog_lifetime = \"10m\"";
    assert_eq!(read(off), None, "then the interval does not matter");
}

#[test]
fn each_event_loop_is_what_it_is_called() {
    for (word, expected) in [
        ("auto", EventLoopKind::Auto),
        ("epoll", EventLoopKind::Epoll),
        ("poll", EventLoopKind::Poll),
        ("io_uring", EventLoopKind::IoUring),
    ] {
        let text = format!("[workers]\nevent_loop = \"{word}\"");
        let read = parse(&text).expect("it is right");
        let options = runtime_options(&read, Clock::start());
        assert_eq!(options.event_loop, expected, "{word}");
    }
}

#[test]
fn differences_name_each_changed_key_and_when_it_takes_effect() {
    let old = parse("").expect("right");
    let new = parse(
        "domains = [\"a.example\"]\n[workers]\ncount = 1\n[[listen]]\naddress = \"127.0.0.1:5080\"
        [[certificate]]\nchain = \"a.pem\"\nkey = \"a.key\"\n[tls]\nmin_version = \"1.3\"",
    )
    .expect("right");
    let differences = old.differences(&new);
    let expected = [
        ("domains", Changes::Reload),
        ("listen", Changes::Restart),
        ("certificate", Changes::Reload),
        ("tls.min_version", Changes::Reload),
        ("workers.count", Changes::Restart),
    ];
    assert_eq!(
        differences,
        expected.map(|(key, changes)| (key.to_owned(), changes))
    );
    assert_eq!(old.differences(&old), []);
}

#[test]
fn a_wildcard_becomes_a_listener_for_each_address_and_leaves_those_configured_apart_alone() {
    let text = r#"
        [[listen]]
        address = "0.0.0.0:5060"
        [[listen]]
        address = "127.0.0.1:5060"
        advertise = "sip.example.org"
    "#;
    let listeners = listeners(&parse(text).expect("right")).expect("there are addresses");
    assert!(
        listeners
            .iter()
            .all(|listener| !listener.address.ip().is_unspecified())
    );
    let loopback: Vec<&str> = listeners
        .iter()
        .filter(|listener| listener.address.to_string() == "127.0.0.1:5060")
        .map(|listener| listener.advertised.as_str())
        .collect();
    assert_eq!(loopback, ["sip.example.org"]);
}

#[test]
fn with_the_database_of_kamailio_dialogs_are_not_saved() {
    let kamailio =
        "[database]\nurl = \"mysql://k@db/kamailio\"\nschema = \"kamailio\"\ntrusted_group = 1";
    let configuration = parse(kamailio).expect("right");
    assert!(configuration.dialogs.persist, "the default");
    assert!(!configuration.saves_dialogs());
    assert!(!settings(&configuration, &[]).dialogs.persist);
    let group = configuration
        .kamailio()
        .and_then(|tables| tables.trusted_group);
    assert_eq!(group, Some(1));
    assert!(parse("").expect("right").saves_dialogs());
}
