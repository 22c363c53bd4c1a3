//! The program as operators run it: its output, signals and exit codes.
mod common;

use common::{PATIENCE, Phone, Place, tandem, text};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const OPEN: &str = "[auth]\nchallenge = []\n";

/// `tandem serve` in a separate process, ready. It is killed when the test ends.
struct Serving {
    process: Child,
    log: Receiver<String>,
    banner: Vec<String>,
}

impl Serving {
    /// Starts it and waits until it is ready.
    fn start(place: &Place) -> Self {
        let mut serving = Self::launch(place);
        while !serving
            .banner
            .last()
            .is_some_and(|line| line.contains("admin: http://"))
        {
            let line = serving.line();
            serving.banner.push(line);
        }
        serving
    }

    /// Starts it without waiting.
    fn launch(place: &Place) -> Self {
        let file = place.file().display().to_string();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["serve", "--config", &file])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = BufReader::new(process.stderr.take().expect("a pipe"));
        let (lines, log_lines) = mpsc::channel();
        std::thread::spawn(move || {
            log.lines()
                .map_while(Result::ok)
                .try_for_each(|line| lines.send(line))
        });
        Self {
            process,
            log: log_lines,
            banner: Vec::new(),
        }
    }

    /// The next line of the log.
    fn line(&self) -> String {
        self.log
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("{error} after {:#?}", self.banner))
    }

    fn said(&self, what: &str) -> String {
        let line = self
            .banner
            .iter()
            .find_map(|line| Some(line.split_once(what)?.1.trim().to_owned()));
        line.unwrap_or_else(|| panic!("no \"{what}\" in {:#?}", self.banner))
    }

    fn sip(&self) -> SocketAddr {
        self.said("listening: UDP ").parse().expect("an address")
    }

    fn admin(&self) -> String {
        self.said("admin: ")
            .split("/health")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("the signal is sent");
    }

    /// Waits for the end; returns the exit code and the remaining log lines.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("it can be asked") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        (
            status.code(),
            self.log.iter().collect::<Vec<_>>().join("\n"),
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_log_begins_with_what_an_operator_must_know() {
    let place = Place::new("");
    let serving = Serving::start(&place);
    assert!(serving.banner.len() <= 14, "{:#?}", serving.banner);
    assert_eq!(
        serving.said("Tandem "),
        format!("{} is ready", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(
        serving.said("configuration: "),
        place.file().display().to_string()
    );
    assert_eq!(serving.said("domains: "), "tandem.localhost");
    assert_eq!(serving.said("workers: "), "2");
    assert_eq!(serving.said("registrations restored: "), "0");
    assert_eq!(
        serving.said("subscribers: "),
        "none; add one with `tandem user add NAME@DOMAIN`"
    );
    assert_eq!(
        serving.said("database: "),
        format!("{} (new)", place.database_url())
    );
    assert!(serving.said("receive buffers: ").contains("KiB each"));
    assert_ne!(serving.sip().port(), 0);
}

#[test]
fn sigterm_drains_saves_and_ends_with_success() {
    let place = Place::new(OPEN);
    let serving = Serving::start(&place);
    assert_eq!(Phone::at(serving.sip(), "alice").register("a", 1).0, 200);
    serving.signal(rustix::process::Signal::TERM);
    let (code, log) = serving.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("draining") && log.contains("all registrations are saved"),
        "{log}"
    );
    assert_eq!(Serving::start(&place).said("registrations restored: "), "1");
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new(OPEN);
    let serving = Serving::start(&place);
    let (alice, bob) = (
        Phone::at(serving.sip(), "alice"),
        Phone::at(serving.sip(), "bob"),
    );
    assert_eq!(bob.register("b", 1).0, 200);
    alice.send(
        (1, "INVITE"),
        "sip:bob@tandem.localhost",
        "sip:bob@tandem.localhost",
        "i",
        "",
    );
    assert!(bob.receive().starts_with("INVITE"));
    serving.signal(rustix::process::Signal::TERM);
    while !serving.line().contains("draining") {}
    let begin = Instant::now();
    serving.signal(rustix::process::Signal::INT);
    let (code, log) = serving.end();
    assert!(log.contains("stopping immediately"), "{log}");
    assert_eq!(code, Some(0), "{log}");
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "it waited for the ringing call"
    );
}

#[test]
fn registrations_survive_a_kill_that_gives_no_time() {
    let place = Place::new(OPEN);
    let serving = Serving::start(&place);
    assert_eq!(Phone::at(serving.sip(), "alice").register("a", 1).0, 200);
    let deadline = Instant::now() + PATIENCE;
    let saved = |admin: &str| {
        let page = ureq::get(format!("{admin}/metrics"))
            .call()
            .expect("answered")
            .body_mut()
            .read_to_string();
        let page = page.expect("a text");
        let value = |name: &str| page.lines().any(|line| line == name);
        value("tandem_location_saves_total 1") && value("tandem_location_unsaved 0")
    };
    while !saved(&serving.admin()) {
        assert!(Instant::now() < deadline, "it is never saved");
        std::thread::sleep(Duration::from_millis(20));
    }
    serving.signal(rustix::process::Signal::KILL);
    serving.end();
    assert_eq!(Serving::start(&place).said("registrations restored: "), "1");
}

#[test]
fn sighup_reloads_and_says_what_became_of_it() {
    let place = Place::new("");
    let serving = Serving::start(&place);
    let good = std::fs::read_to_string(place.file()).expect("the file");
    place.configure_exactly(&format!("server_header = \"Other\"\n{good}"));
    serving.signal(rustix::process::Signal::HUP);
    let line = serving.line();
    assert!(line.contains("reloaded: server_header"), "{line}");
    place.configure_exactly(&good.replace("count = 2", "count = two"));
    serving.signal(rustix::process::Signal::HUP);
    let line = serving.line();
    assert!(
        line.contains("reload: nothing changed: the file has errors"),
        "{line}"
    );
}

#[test]
fn a_reload_changes_the_level_of_the_log() {
    let place = Place::new("");
    let serving = Serving::start(&place);
    let good = std::fs::read_to_string(place.file()).expect("the file");
    place.configure_exactly(&format!("{good}[log]\nlevel = \"debug\"\n"));
    serving.signal(rustix::process::Signal::HUP);
    let line = serving.line();
    assert!(line.contains("reloaded: log.level"), "{line}");
    // A task that runs every few seconds logs only at this level.
    assert!(serving.line().contains("DEBUG"));
}

#[test]
fn a_json_log_is_one_object_a_line() {
    let place = Place::new("[log]\nformat = \"json\"\n");
    let serving = Serving::start(&place);
    for line in &serving.banner {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(
            record["message"].is_string() && record["level"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn check_prints_what_would_run_or_every_mistake() {
    let place = Place::new("");
    let file = place.file().display().to_string();
    let valid = tandem(&["check", "--config", &file]);
    let printed = text(&valid.stdout);
    assert_eq!(valid.status.code(), Some(0), "{}", text(&valid.stderr));
    for line in [
        "domains       tandem.localhost",
        "listen        udp 127.0.0.1:0",
        "workers       2",
        "other domains refuse",
    ] {
        assert!(
            printed.lines().any(|printed| printed == line),
            "no \"{line}\" in\n{printed}"
        );
    }
    assert!(
        !place.file().with_file_name("t.db").exists(),
        "it opens nothing"
    );
    place.configure("[auth]\nchalenge = []\n[limits]\nbindings = 1\n");
    let wrong = tandem(&["check", "--config", &file]);
    let problem = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        problem.contains("unknown key `chalenge` in [auth]: did you mean `challenge`?"),
        "{problem}"
    );
    assert!(
        problem.contains("`limits.bindings = 1`: must be a whole number from 100 to 100000000"),
        "{problem}"
    );
}

/// The lines that `tandem check` prints for a configuration, and its exit code.
fn checked(configuration: &str, variables: &[(&str, &str)]) -> (Vec<String>, Option<i32>) {
    let place = Place::new("");
    place.configure_exactly(configuration);
    let output = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["check", "--config", "tandem.toml"])
        .current_dir(place.file().parent().expect("a directory"))
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs");
    let printed = text(&output.stdout) + &text(&output.stderr);
    let lines = printed.lines().map(|line| {
        let line = line.trim_start();
        line.strip_prefix("tandem: ").unwrap_or(line).to_owned()
    });
    (lines.collect(), output.status.code())
}

#[test]
fn check_finds_everything_that_this_machine_lacks_at_once() {
    let configuration = r#"
[[listen]]
address = "127.0.0.1:5060"
[[listen]]
transport = "tls"
address = "192.0.2.77:5061"
[[certificate]]
chain = "missing.pem"
key = "missing.key"
[[certificate]]
chain = "tandem.toml"
key = "other.key"
[tls]
client_certificates = "optional"
client_ca = "missing-ca.pem"
[database]
url = "sqlite:missing/tandem.db"
[admin]
listen = "127.0.0.1:0"
token_file = "missing.token"
socket = "/missing/tandem.sock"
[records]
file = "/missing/calls.jsonl"
"#;
    let missing = "No such file or directory (os error 2)";
    let expected = [
        "tandem.toml:6:11: `listen[1].address = \"192.0.2.77:5061\"`: this machine does not have this address: `ip address` lists the addresses that it has".to_owned(),
        format!("tandem.toml:8:9: `certificate[0].chain = \"missing.pem\"`: cannot be read: {missing}"),
        format!("tandem.toml:9:7: `certificate[0].key = \"missing.key\"`: cannot be read: {missing}"),
        "tandem.toml:11:9: `certificate[1].chain = \"tandem.toml\"`: has no certificate: \"-----BEGIN CERTIFICATE-----\" is missing".to_owned(),
        format!("tandem.toml:12:7: `certificate[1].key = \"other.key\"`: cannot be read: {missing}"),
        format!("tandem.toml:15:13: `tls.client_ca = \"missing-ca.pem\"`: cannot be read: {missing}"),
        "tandem.toml:17:7: `database.url = \"sqlite:missing/tandem.db\"`: no such directory: missing; create it".to_owned(),
        format!("tandem.toml:20:14: `admin.token_file = \"missing.token\"`: the token file missing.token: {missing}"),
        "tandem.toml:21:10: `admin.socket = \"/missing/tandem.sock\"`: no such directory: /missing; create it".to_owned(),
        "tandem.toml:23:8: `records.file = \"/missing/calls.jsonl\"`: no such directory: /missing; create it".to_owned(),
    ];
    assert_eq!(checked(configuration, &[]), (expected.to_vec(), Some(1)));
}

#[test]
fn check_warns_of_what_does_not_keep_the_server_from_starting() {
    let (lines, code) = checked("[auth]\nchallenge = []\n[workers]\npin = [0, 9999]\n", &[]);
    assert_eq!(code, Some(0), "{lines:?}");
    let warnings: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("WARNING       "))
        .collect();
    assert_eq!(
        warnings,
        [
            "digest authentication is off: anyone can register and call under any identity. Remove `auth.challenge` to require a password",
            "`workers.pin`: this machine has no CPU 9999, or this process may not use it: workers are not pinned to it",
        ]
    );
}

#[test]
fn variables_override_the_file_and_mistakes_name_them() {
    let (lines, code) = checked("[workers]\ncount = 1\n", &[("TANDEM_WORKERS_COUNT", "3")]);
    assert_eq!(code, Some(0), "{lines:?}");
    assert!(lines.contains(&"workers       3".to_owned()), "{lines:?}");
    let variables = [("TANDEM_DATABASE_URL", "sqlite:/missing/t.db")];
    let expected = "TANDEM_DATABASE_URL: `database.url = \"sqlite:/missing/t.db\"`: no such directory: /missing; create it";
    assert_eq!(
        checked("", &variables),
        (vec![expected.to_owned()], Some(1))
    );
}

#[test]
fn a_server_without_digest_authentication_is_warned_about() {
    let warning = "digest authentication is off";
    let checked = |place: &Place| {
        let file = place.file().display().to_string();
        text(&tandem(&["check", "--config", &file]).stdout)
    };
    let open = Place::new(OPEN);
    assert!(checked(&open).contains(&format!("WARNING       {warning}")));
    let is_logged = |place: &Place| {
        let serving = Serving::start(place);
        let mut lines = serving.banner.iter();
        lines.any(|line| line.contains("WARN") && line.contains(warning))
    };
    assert!(is_logged(&open));
    let closed = Place::new("");
    assert!(!checked(&closed).contains("WARNING"));
    assert!(!is_logged(&closed));
}

#[test]
fn the_references_and_the_example_file_are_printed() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (flag, file) in [
        ("--reference", "docs/configuration.md"),
        ("--example", "tandem.example.toml"),
        ("--metrics", "docs/metrics.md"),
    ] {
        let committed =
            std::fs::read_to_string(format!("{root}/{file}")).expect("the file is there");
        assert!(
            text(&tandem(&["check", flag]).stdout) == committed,
            "`tandem check {flag}` does not print {file}"
        );
    }
}

#[test]
fn a_wrong_file_or_command_line_stops_before_anything_is_opened() {
    let place = Place::new("[timers]\nt9 = 1\n");
    let file = place.file().display().to_string();
    let refused = tandem(&["serve", "--config", &file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("unknown key `t9` in [timers]"));
    assert!(!place.file().with_file_name("t.db").exists());
    assert_eq!(tandem(&["sevre"]).status.code(), Some(2));
    assert_eq!(
        text(&tandem(&["--version"]).stdout),
        format!("tandem {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn subscribers_are_added_with_the_same_configuration_file() {
    let place = Place::new("");
    let file = place.file().display().to_string();
    let added = tandem(&[
        "user",
        "add",
        "alice",
        "--password",
        "s3cret",
        "--config",
        &file,
    ]);
    assert_eq!(added.status.code(), Some(0), "{}", text(&added.stderr));
    let serving = Serving::start(&place);
    assert_eq!(serving.said("subscribers: "), "1");
    assert_eq!(
        Phone::at(serving.sip(), "alice").register_with("s3cret", "a"),
        200
    );
}

#[test]
fn a_second_server_on_the_same_database_is_refused_but_a_command_is_not() {
    let place = Place::new("");
    let file = place.file().display().to_string();
    let serving = Serving::start(&place);
    let (code, problem) = Serving::launch(&place).end();
    assert_eq!(code, Some(1), "{problem}");
    let expected = format!(
        "another server uses the database {}: process {} has locked ",
        place.database_url(),
        serving.process.id()
    );
    assert!(problem.contains(&expected), "{problem}");
    let command = tandem(&["user", "list", "--config", &file]);
    assert_eq!(command.status.code(), Some(0), "{}", text(&command.stderr));
}
