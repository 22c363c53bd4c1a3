//! Variables that override keys, and mistakes in them.
use super::*;

#[test]
fn a_variable_overrides_a_key_and_is_named_with_its_value() {
    let text = "domains = [\"a.example\"]\n[workers]\ncount = 1\n[tls]\nmin_version = \"1.2\"";
    let variables = [
        ("TANDEM_DOMAINS", "[\"b.example\", \"c.example\"]"),
        ("TANDEM_SERVER_HEADER", "4"),
        ("TANDEM_WORKERS_COUNT", "3"),
        ("TANDEM_TLS_MIN_VERSION", "1.3"),
        ("TANDEM_ADMIN_LISTEN", "\"127.0.0.1:9000\""),
        ("TANDEM_BANS_ENABLED", "false"),
        ("TANDEM_TIMERS_T1", "1s 500ms"),
        ("TANDEM_ADMIN_TOKEN_FILE", "/run/token"),
        ("HOME", "/root"),
    ];
    let loaded = parse_with(text, &variables).expect("it is right");
    let read = &loaded.configuration;
    assert_eq!(
        read.domains,
        ["b.example", "c.example"].map(|name| DomainName(name.to_owned()))
    );
    assert_eq!(read.server_header, "4");
    assert_eq!(read.workers.count, Count::Exactly(3));
    assert_eq!(read.tls.min_version.word(), "1.3");
    assert_eq!(read.admin.listen.port(), 9_000);
    assert!(!read.bans.enabled);
    assert_eq!(read.timers.t1.as_millis(), 1_500);
    assert_eq!(read.admin.token_file, Some(FilePath("/run/token".into())));
    let shown = effective(&loaded);
    for line in [
        "domains = [\"b.example\", \"c.example\"] # TANDEM_DOMAINS",
        "count = 3 # TANDEM_WORKERS_COUNT",
        "token_file = \"/run/token\" # TANDEM_ADMIN_TOKEN_FILE",
        "duration = \"10m\"",
    ] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "no {line} in\n{shown}"
        );
    }
    let again = parse(&shown).expect("it is a configuration");
    assert_eq!(again, loaded.configuration);
}

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    for (variables, expected) in [
        (
            [("TANDEM_WORKERS_COUNT", "0")],
            "TANDEM_WORKERS_COUNT: `workers.count = 0`: must be \"auto\" or a whole number from 1 to 256",
        ),
        (
            [("TANDEM_DOMAINS", "example.org")],
            "TANDEM_DOMAINS: `domains = example.org`: must be a list of domain names, at least one (put it in brackets)",
        ),
        (
            [("TANDEM_DOMAINS", "[\"example.org\", 5]")],
            "TANDEM_DOMAINS: `domains[1] = 5`: must be a domain name, such as \"example.org\" (put it in quotes)",
        ),
        (
            [("TANDEM_WORKER_COUNT", "1")],
            "TANDEM_WORKER_COUNT: unknown variable: did you mean TANDEM_WORKERS_COUNT?",
        ),
        (
            [("TANDEM_DATABSE_URL_FILE", "/run/url")],
            "TANDEM_DATABSE_URL_FILE: unknown variable: did you mean TANDEM_DATABASE_URL_FILE?",
        ),
        (
            [("TANDEM_LISTEN_ADDRESS", "127.0.0.1:5060")],
            "TANDEM_LISTEN_ADDRESS: unknown variable: only the file can set the keys of [[listen]], which may occur several times",
        ),
        (
            [("TANDEM_ADMIN_LISTEN", "192.0.2.1:8060")],
            "TANDEM_ADMIN_LISTEN: `admin.listen = \"192.0.2.1:8060\"`: other machines can reach this address: set `admin.token_file`, or listen on 127.0.0.1 or [::1]",
        ),
        (
            [("TANDEM_TLS_CLIENT_CERTIFICATES", "optional")],
            "TANDEM_TLS_CLIENT_CERTIFICATES: `tls.client_ca` is missing: `client_certificates = \"optional\"` requires it: a file path, such as \"/etc/tandem/chain.pem\"",
        ),
        (
            [("TANDEM_DATABASE_URL_FILE", "/nowhere/url")],
            "TANDEM_DATABASE_URL_FILE: the file /nowhere/url cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(mistakes_with("", &variables), [expected]);
    }
    let invalid = mistakes_with("", &[("TANDEM_DOMAINS", "[\"a.example\"")]);
    assert!(invalid[0].contains("(invalid TOML: "), "{invalid:?}");
}

#[test]
fn a_value_from_a_file_is_read_without_its_line_end_and_not_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("url");
    let path = file.display().to_string();
    std::fs::write(&file, "sqlite:/tmp/secret.db\n").expect("written");
    let variables = [("TANDEM_DATABASE_URL_FILE", path.as_str())];
    let loaded = parse_with("", &variables).expect("it is right");
    assert_eq!(loaded.configuration.database.url.0, "sqlite:/tmp/secret.db");
    let shown = effective(&loaded);
    assert!(!shown.contains("secret.db"), "{shown}");
    assert!(
        shown.contains("# database.url is not shown: it comes from the file that TANDEM_DATABASE_URL_FILE names"),
        "{shown}"
    );
    let both = [variables[0], ("TANDEM_DATABASE_URL", "sqlite:a.db")];
    assert_eq!(
        mistakes_with("", &both),
        ["TANDEM_DATABASE_URL_FILE: TANDEM_DATABASE_URL is set, too: set only one of the two"]
    );
    std::fs::write(&file, "secret").expect("written");
    assert_eq!(
        mistakes_with("", &variables),
        [
            "TANDEM_DATABASE_URL_FILE: `database.url`: must be a database URL, such as \"sqlite:tandem.db\" or \"postgres://tandem@db.example.org/tandem\" (it has no scheme)"
        ]
    );
}

#[test]
fn the_password_of_the_database_is_not_shown() {
    let url = "postgres://tandem:secret@db/tandem";
    let variables = [("TANDEM_DATABASE_URL", url)];
    let loaded = parse_with("", &variables).expect("it is right");
    assert_eq!(loaded.configuration.database.url.0, url);
    let shown = effective(&loaded);
    assert!(
        shown.contains("url = \"postgres://tandem@db/tandem\" # TANDEM_DATABASE_URL"),
        "{shown}"
    );
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn the_password_of_the_redis_server_is_not_shown() {
    let url = "redis://tandem:secret@cache/2";
    let loaded = parse_with("", &[("TANDEM_EVENTS_PUBLISH", url)]).expect("it is right");
    let publish = loaded.configuration.events.publish.as_ref().expect("given");
    assert_eq!(publish.as_str(), url);
    let shown = effective(&loaded);
    let line = "publish = \"redis://tandem@cache/2\" # TANDEM_EVENTS_PUBLISH";
    assert!(shown.contains(line), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("url");
    std::fs::write(&file, format!("{url}\n")).expect("written");
    let path = file.display().to_string();
    let loaded = parse_with("", &[("TANDEM_EVENTS_PUBLISH_FILE", &path)]).expect("it is right");
    let publish = loaded.configuration.events.publish.as_ref().expect("given");
    assert_eq!(publish.as_str(), url);
    assert!(!effective(&loaded).contains("tandem@cache"));
}

#[test]
fn each_variable_sets_one_key() {
    let mut variables = std::collections::BTreeSet::new();
    for chapter in Configuration::chapters() {
        if chapter.header.starts_with("[[") {
            continue;
        }
        for entry in &chapter.keys {
            let path = format!("{}.{}", chapter.path, entry.key.name);
            let variable = crate::config::environment::variable(path.trim_start_matches('.'));
            assert!(variables.insert(variable), "{path}");
        }
    }
    for variable in &variables {
        assert!(
            !variables.contains(&format!("{variable}_FILE")),
            "{variable}_FILE is a key and names a file with the value of another"
        );
    }
}

#[test]
fn variables_of_the_command_line_and_of_kubernetes_set_no_key() {
    let environment = [
        ("TANDEM_CONFIG", "tandem.toml"),
        ("TANDEM_SERVICE_HOST", "10.43.0.17"),
        ("TANDEM_SIP_SERVICE_HOST", "10.43.0.17"),
        ("TANDEM_SIP_PORT_5060_UDP_PROTO", "udp"),
        ("TANDEM_SERVICE_PORT_SIP", "5060"),
        ("TANDEM_PORT", "udp://10.43.0.17:5060"),
        ("TANDEM_PORT_5060_UDP_ADDR", "10.43.0.17"),
        ("TANDEM_PORT_5060_UDP_PORT", "5060"),
    ];
    let environment = environment.into_iter().collect();
    let loaded = crate::config::parse("", "tandem.toml", &environment).expect("no mistakes");
    assert_eq!(loaded.configuration, Configuration::default());
}

#[test]
fn a_key_whose_name_ends_with_port_is_no_variable_of_kubernetes() {
    let loaded = parse_with("", &[("TANDEM_UDP_SHARE_PORT", "true")]).expect("no mistakes");
    assert!(loaded.configuration.udp.share_port);
    let mistakes = mistakes_with("", &[("TANDEM_ADMIN_PORT", "8060")]);
    assert!(
        mistakes.iter().any(|it| it.contains("unknown variable")),
        "{mistakes:?}"
    );
}
