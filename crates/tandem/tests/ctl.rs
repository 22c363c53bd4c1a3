//! `tandem ctl` as operators run it, against a server in this process.
mod common;

use common::{PATIENCE, Phone, Place, metric, run, text, until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tandem::serve::Server;

const OPEN: &str = "[auth]\nchallenge = []\n";

/// `tandem ctl <words>`, without a configuration from the environment of the test.
fn ctl(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg("ctl").args(words).env_remove("TANDEM_CONFIG");
    command
}

fn failure(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// What `tandem ctl <words>` prints about this server.
async fn printed(server: &Server, words: &'static str) -> String {
    let address = server.admin_address().to_string();
    let output = tokio::task::spawn_blocking(move || -> Output {
        let mut command = ctl(&words.split(' ').collect::<Vec<_>>());
        let command = command.args(["--admin", &address]);
        command.output().expect("the program runs")
    });
    let output = output.await.expect("no panic");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_state_of_a_server_is_shown_in_aligned_columns() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let status = printed(&server, "status").await;
        assert!(status.starts_with("phase          ready\n"), "{status}");
        assert!(status.contains("\nworkers        2\n"), "{status}");
        assert!(
            status.contains("\nlistener       udp 127.0.0.1:"),
            "{status}"
        );
        assert_eq!(Phone::new(&server, "alice").register("a", 1).0, 200);
        let stats = printed(&server, "stats").await;
        assert!(
            stats.contains("\nrequests              REGISTER: 1\n"),
            "{stats}"
        );
        assert!(stats.contains("\nregistrations         1\n"), "{stats}");
        let workers = printed(&server, "workers").await;
        let first_words: Vec<&str> = workers
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(first_words, ["WORKER", "0", "1", "total"]);
        assert!(
            printed(&server, "proxy")
                .await
                .starts_with("created              0\n")
        );
        assert_eq!(printed(&server, "targets").await, "no failed servers\n");
        assert_eq!(printed(&server, "subscribers").await, "0\n");
    });
}

#[test]
fn registrations_are_listed_page_by_page() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        assert_eq!(printed(&server, "locations").await, "no registrations\n");
        let alice = Phone::new(&server, "alice");
        assert_eq!(alice.register("a", 1).0, 200);
        let locations = printed(&server, "locations").await;
        let lines: Vec<&str> = locations.lines().collect();
        let here = alice.address();
        let contact = format!("sip:alice@{here}");
        let width = contact.len();
        assert_eq!(
            lines[0],
            format!(
                "ADDRESS                 {:width$}  EXPIRES IN  SOURCE{:2$}USER AGENT",
                "CONTACT",
                "",
                here.to_string().len() - 4
            )
        );
        assert!(
            lines[1].starts_with(&format!("alice@tandem.localhost  {contact}  ")),
            "{locations}"
        );
        assert_eq!(Phone::new(&server, "bob").register("b", 1).0, 200);
        let page = printed(&server, "locations --limit 1").await;
        assert!(
            page.ends_with("\nmore follow; continue with --after alice@tandem.localhost\n"),
            "{page}"
        );
        let rest = printed(&server, "locations --after alice@tandem.localhost").await;
        assert!(rest.contains("\nbob@tandem.localhost  "), "{rest}");
        assert!(!rest.contains("alice"), "{rest}");
        let location = printed(&server, "location alice@tandem.localhost").await;
        assert!(
            location.starts_with(&format!("contact     {contact}\nq           1\n")),
            "{location}"
        );
    });
}

#[test]
fn commands_change_the_server_and_say_what_they_did() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let ban = printed(&server, "ban 192.0.2.7 --for 90min").await;
        assert_eq!(ban, "banned 192.0.2.7 for 1h 30m\n");
        let bans = printed(&server, "bans").await;
        assert!(
            bans.starts_with("SOURCE     ENDS IN\n192.0.2.7  1h "),
            "{bans}"
        );
        let unban = printed(&server, "unban 192.0.2.7").await;
        assert_eq!(unban, "the ban is lifted\n");
        let unban = printed(&server, "unban 192.0.2.7").await;
        assert_eq!(unban, "there was no ban\n");
        assert_eq!(printed(&server, "bans").await, "no bans\n");
        assert_eq!(Phone::new(&server, "alice").register("a", 1).0, 200);
        let removed = printed(&server, "unregister alice@tandem.localhost").await;
        assert_eq!(removed, "removed 1 binding\n");
        let drained = printed(&server, "drain").await;
        assert_eq!(drained, "the server is draining\n");
        assert_eq!(printed(&server, "undrain").await, "the server is ready\n");
        let reloaded = printed(&server, "reload").await;
        assert_eq!(reloaded, "reloaded; no key changed\n");
        let configuration = printed(&server, "config").await;
        let configuration: toml::Table = configuration.parse().expect("TOML");
        assert_eq!(configuration["workers"]["count"].as_integer(), Some(2));
    });
}

#[test]
fn json_is_the_result_of_the_method() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let json = |text: String| -> Value { serde_json::from_str(&text).expect("JSON") };
        let bans = json(printed(&server, "bans --json").await);
        assert_eq!(bans, json!({ "bans": [] }));
        let called = json(printed(&server, "call location.list limit=5").await);
        assert_eq!(called, json!({ "addresses": [], "next": null }));
        let methods = json(printed(&server, "methods --json").await);
        assert_eq!(methods, json(printed(&server, "call rpc.methods").await));
    });
}

#[test]
fn the_methods_are_listed_without_a_server() {
    let listed = ctl(&["methods", "--config", "/nowhere/tandem.toml"]).output();
    let listed = text(&listed.expect("the program runs").stdout);
    for method in tandem::admin::METHODS {
        assert!(
            listed
                .lines()
                .any(|line| line.starts_with(&format!("{}  ", method.name))
                    && line.ends_with(method.summary)),
            "{}: {listed}",
            method.name
        );
    }
}

#[test]
fn a_refusal_has_the_reason_of_the_server() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let address = server.admin_address().to_string();
        let refused = tokio::task::spawn_blocking(move || {
            failure(&mut ctl(&[
                "locations",
                "--limit",
                "0",
                "--admin",
                &address,
            ]))
        });
        assert_eq!(
            refused.await.expect("no panic"),
            "tandem: location.list: `limit` = 0: must be a whole number from 1 to 10000\n"
        );
    });
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_origin_of_its_address() {
    // Bound and dropped, so connections are refused.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a port").to_string();
    let start = format!(
        "tandem: cannot reach the server at http://{address}: Connection refused (os error 111)\n        "
    );
    let place = Place::new("");
    place.configure_exactly(&format!("[admin]\nlisten = \"{address}\"\n"));
    let file = place.file().display().to_string();
    let configured = format!(
        "{start}The address is `admin.listen` of {file}. Start the server with `tandem serve --config {file}`, or name another one with --admin\n"
    );
    assert_eq!(
        failure(&mut ctl(&["status", "--config", &file])),
        configured
    );
    let from_environment = failure(ctl(&["status"]).env("TANDEM_CONFIG", &file));
    assert_eq!(from_environment, configured);
    // The option wins over the environment, which here names no file.
    let given = failure(ctl(&["status", "--admin", &address]).env("TANDEM_CONFIG", "/nowhere"));
    assert!(
        given.starts_with(&format!("{start}The address is that of --admin.")),
        "{given}"
    );
    let socket = place.file().with_file_name("admin.sock");
    let socket = socket.display().to_string();
    place.configure_exactly(&format!("[admin]\nsocket = \"{socket}\"\n"));
    let problem = failure(&mut ctl(&["status", "--config", &file]));
    assert!(
        problem.contains(&format!("the server at {socket}: No such file"))
            && problem.contains("`admin.socket` of"),
        "{problem}"
    );
}

/// Somebody edits the file of a server that runs well: a health check and the operator must still reach the server.
#[test]
fn mistakes_beside_the_admin_section_do_not_cut_off_a_running_server() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let listen = server.admin_address();
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("tandem.toml");
        let status = |text: String| {
            std::fs::write(&file, text).expect("written");
            let mut command = ctl(&["status", "--config"]);
            command.arg(&file);
            tokio::task::spawn_blocking(move || command.output().expect("the program runs"))
        };
        let admin = format!("[admin]\nlisten = \"{listen}\"\n");
        let shown = status(format!("domains = 7\n{admin}"))
            .await
            .expect("no panic");
        assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
        assert!(text(&shown.stdout).starts_with("phase          ready\n"));
        let note = text(&shown.stderr);
        assert!(
            note.contains("has mistakes") && note.contains("tandem check"),
            "{note}"
        );
        for wrong in [format!("{admin}hosts = 7\n"), format!("{admin}broken")] {
            let refused = status(wrong).await.expect("no panic");
            assert_eq!(refused.status.code(), Some(1));
        }
    });
}

/// Both servers accept; the second one sends a byte every 20 ms, so that only a bound on the whole call ends it.
#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let folder = tempfile::tempdir().expect("a directory");
    let slow = folder.path().join("admin.sock");
    let listener = UnixListener::bind(&slow).expect("a socket");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        assert_ne!(stream.read(&mut [0; 4_096]).expect("a request"), 0);
        let header = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        stream.write_all(header).expect("sent");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let silent = silent.local_addr().expect("bound").to_string();
    for address in [silent, slow.display().to_string()] {
        let begin = Instant::now();
        let words = ["status", "--admin", &address, "--timeout", "400ms"];
        let problem = failure(&mut ctl(&words));
        assert!(
            problem.contains("did not answer within 400ms; wait longer with --timeout"),
            "{problem}"
        );
        assert!(begin.elapsed() >= Duration::from_millis(400));
        assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
    }
}

#[test]
fn a_watch_repeats_in_a_pipe_while_the_server_restarts_and_ends_with_its_reader() {
    run(async {
        let (place, server) = Place::new("").start_alone().await;
        let address = server.admin_address().to_string();
        let mut process = ctl(&["subscribers", "--watch=100ms", "--admin", &address])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let reader = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut lines = reader.lines().map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("0"));
        place.subscribe("alice", "secret").await;
        let (counted, lines) =
            tokio::task::spawn_blocking(move || (lines.find(|line| line == "1").is_some(), lines))
                .await
                .expect("no panic");
        assert!(counted, "it ended");
        server.stop(false).await;
        let ended = tokio::task::spawn_blocking(move || {
            let mut lines = lines;
            assert!(lines.any(|line| line.starts_with("cannot reach the server")));
            drop(lines);
            process.wait_with_output()
        });
        let ended = ended.await.expect("no panic").expect("the program ends");
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(text(&ended.stderr), "");
    });
}

#[test]
fn the_configured_token_goes_only_to_the_configured_address() {
    const TOKEN: &str = "c2f1a07e65d94b8ea3f0";
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let folder = tempfile::tempdir().expect("a directory");
    let (file, token) = (
        folder.path().join("tandem.toml"),
        folder.path().join("token"),
    );
    std::fs::write(&token, TOKEN).expect("written");
    let address = other.local_addr().expect("bound").to_string();
    let configuration = format!(
        "[admin]\nlisten = \"{address}\"\ntoken_file = \"{}\"\n",
        token.display()
    );
    std::fs::write(&file, configuration).expect("written");
    // The header that the other server receives.
    let received = std::thread::spawn(move || {
        let mut headers = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = other.accept().expect("a client");
            let mut header = [0; 4_096];
            let length = stream.read(&mut header).expect("a request");
            headers.push(text(&header[..length]));
        }
        headers
    });
    let file = file.display().to_string();
    failure(&mut ctl(&["status", "--config", &file]));
    failure(&mut ctl(&[
        "status", "--config", &file, "--admin", &address,
    ]));
    let received = received.join().expect("no panic");
    assert!(received[0].contains(TOKEN), "{}", received[0]);
    assert!(!received[1].contains(TOKEN), "{}", received[1]);
}

#[test]
fn events_are_followed_until_the_server_stops() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let address = server.admin_address().to_string();
        let mut command = ctl(&["events", "--user", "alice", "--admin", &address]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let following = command.spawn().expect("the program runs");
        let readers = async || metric(&server, "tandem_event_readers").await == 1;
        until("the events are followed", readers).await;
        assert!(server.stop(false).await);
        let output = following.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        let problem = text(&output.stderr);
        assert_eq!(problem, "tandem: the server ended the stream: it stops\n");
    });
}

#[test]
fn a_wrong_filter_of_events_is_reported_as_the_server_says() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let address = server.admin_address().to_string();
        let mut command = ctl(&["events", "--types", "answer", "--admin", &address]);
        let problem = tokio::task::spawn_blocking(move || failure(&mut command)).await;
        let problem = problem.expect("no panic");
        assert!(
            problem.contains("400") && problem.contains("started, ringing, answered, ended"),
            "{problem}"
        );
    });
}
