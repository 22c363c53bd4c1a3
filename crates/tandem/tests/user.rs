//! `tandem user` as people and scripts run it: pipes, exit codes, and a server that uses the same database.
mod common;

use common::Place;
use sip_message::digest::ha1_md5;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use tandem_store::{AddressBindings, Store};

/// Runs `tandem user <words> --config <file of the place>` with this standard input.
fn user(place: &Place, words: &[&str], input: &str) -> Output {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .arg("user")
        .args(words)
        .arg("--config")
        .arg(place.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = process.stdin.take().expect("a pipe");
    // A program that needs no input may already have ended.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    process.wait_with_output().expect("the program ends")
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn csv(lines: u32) -> String {
    let line = |number| format!("u{number},tandem.localhost,secret{number}");
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_password_comes_from_standard_input() {
    let place = Place::new("");
    let (code, out, _) = said(&user(
        &place,
        &["add", "alice", "--password-file", "-"],
        "secret\n",
    ));
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "added alice@tandem.localhost\n")
    );
    let (code, _, notes) = said(&user(
        &place,
        &["passwd", "alice", "--password-file", "-"],
        "",
    ));
    assert_eq!(code, Some(2), "{notes}");
    assert!(notes.contains("the password is empty"), "{notes}");
}

#[test]
fn a_password_comes_from_a_file() {
    let place = Place::new("");
    let file = place.file().with_file_name("alice.password");
    std::fs::write(&file, "secret\nsecond line\n").expect("written");
    let given = file.display().to_string();
    let (code, out, notes) = said(&user(
        &place,
        &["add", "alice", "--password-file", &given],
        "",
    ));
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "added alice@tandem.localhost\n"),
        "{notes}"
    );
    assert_eq!(
        credentials(&place, "alice"),
        ha1_md5(b"alice", b"tandem.localhost", b"secret")
    );
    std::fs::remove_file(&file).expect("removed");
    let (code, _, notes) = said(&user(
        &place,
        &["passwd", "alice", "--password-file", &given],
        "",
    ));
    assert_eq!(code, Some(1), "{notes}");
    let problem = format!("tandem: the password file {given} cannot be read: No such file");
    assert!(notes.starts_with(&problem), "{notes}");
}

/// The stored H(user:realm:password) in MD5.
fn credentials(place: &Place, username: &str) -> [u8; 16] {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let found = runtime.block_on(async {
        let store = Store::open(&place.database_url()).await.expect("opens");
        let subscribers = store.subscribers();
        subscribers.find(username, "tandem.localhost").await
    });
    found.expect("finds").expect("the subscriber").ha1_md5
}

#[test]
fn without_a_terminal_there_is_no_password_prompt() {
    let place = Place::new("");
    let (code, out, notes) = said(&user(&place, &["add", "alice"], "secret\n"));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(notes.contains("--password-file"), "{notes}");
}

#[test]
fn the_exit_code_tells_failure_from_misuse() {
    let place = Place::new("");
    let (code, ..) = said(&user(&place, &["add", "alice", "--password", "secret"], ""));
    assert_eq!(code, Some(0));
    let (code, _, notes) = said(&user(&place, &["add", "alice", "--password", "secret"], ""));
    assert_eq!(code, Some(1), "{notes}");
    assert!(
        notes.starts_with("tandem: alice@tandem.localhost already exists"),
        "{notes}"
    );
    let (code, _, notes) = said(&user(
        &place,
        &["add", "al ice", "--password", "secret"],
        "",
    ));
    assert_eq!(code, Some(2), "{notes}");
    assert!(
        notes.contains("the username \"al ice\" contains ' '"),
        "{notes}"
    );
}

#[test]
fn an_import_reads_a_pipe_and_says_where_it_stumbled() {
    let place = Place::new("");
    let input = "username,domain,password\nalice,tandem.localhost,one\nbob;tandem.localhost;two\n";
    let (code, out, notes) = said(&user(&place, &["import", "-"], input));
    assert_eq!(code, Some(1), "{notes}");
    assert!(
        notes
            .contains("tandem: standard input:3: expected username,domain,password, found 1 field"),
        "{notes}"
    );
    assert!(out.contains("1 added, 1 refused"), "{out}");
    let (code, out, _) = said(&user(&place, &["list"], ""));
    assert_eq!((code, out.as_str()), (Some(0), "alice@tandem.localhost\n"));
}

#[test]
fn a_list_whose_reader_has_seen_enough_ends_in_peace() {
    let place = Place::new("");
    let (code, _, notes) = said(&user(&place, &["import", "-"], &csv(20_000)));
    assert_eq!(code, Some(0), "{notes}");
    let mut process = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["user", "list", "--config"])
        .arg(place.file())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = String::new();
    let mut reader = BufReader::new(process.stdout.take().expect("a pipe"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    assert_eq!(first, "u0@tandem.localhost\n");
    let (code, _, notes) = said(&process.wait_with_output().expect("the program ends"));
    assert_eq!((code, notes.as_str()), (Some(0), ""));
}

/// Another process imports while this one saves bindings and reads credentials like a server.
#[test]
fn a_server_and_an_import_share_the_database() {
    let place = Place::new("");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let store = runtime
        .block_on(Store::open(&place.database_url()))
        .expect("opens");
    let importing = std::thread::scope(|scope| {
        let import = scope.spawn(|| said(&user(&place, &["import", "-"], &csv(20_000))));
        runtime.block_on(async {
            while !import.is_finished() {
                let nothing = AddressBindings {
                    address: b"alice@tandem.localhost".into(),
                    bindings: Vec::new(),
                };
                store.locations().save(&[nothing]).await.expect("saves");
                store
                    .subscribers()
                    .find("u0", "tandem.localhost")
                    .await
                    .expect("finds");
            }
        });
        import.join().expect("does not panic")
    });
    assert_eq!(importing.0, Some(0), "{}", importing.2);
    runtime.block_on(async {
        assert_eq!(
            store.subscribers().count(None).await.expect("counts"),
            20_000
        );
        assert_eq!(store.subscribers().version().await.expect("reads"), 20_000);
    });
}

#[test]
fn migrate_creates_the_tables_and_later_finds_them_up_to_date() {
    let place = Place::new("");
    let migrate = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        let output = command.arg("migrate").arg("--config").arg(place.file());
        said(&output.output().expect("the program runs"))
    };
    let (code, output, notes) = migrate();
    assert_eq!(code, Some(0), "{notes}");
    assert!(output.starts_with("created the tables"), "{output}");
    let (code, output, notes) = migrate();
    assert_eq!(code, Some(0), "{notes}");
    assert!(output.contains("are up to date"), "{output}");
    std::fs::write(place.file().with_file_name("broken.db"), "not a database").expect("written");
    place.configure_exactly(&format!(
        "[database]\nurl = \"sqlite:{}\"\n",
        place.file().with_file_name("broken.db").display()
    ));
    let (code, _, notes) = migrate();
    assert_eq!(code, Some(1), "{notes}");
    assert!(notes.contains("not a database"), "{notes}");
}
