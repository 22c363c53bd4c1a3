//! Certificates: created by the program, reported by `check`, read again at each reload, shown in the metrics.
mod common;

use common::{Place, call, get, none, run};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

fn tandem(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// Creates a certificate in a folder.
fn make(folder: &Path, names: &[&str], more: &[&str]) -> Output {
    let folder = folder.to_str().expect("a path");
    let names = names.iter().flat_map(|name| ["--name", name]);
    let arguments = ["certificate", "self-signed", "--folder", folder];
    let arguments = arguments
        .into_iter()
        .chain(names)
        .chain(more.iter().copied());
    tandem(&arguments.collect::<Vec<_>>())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The configuration section for the certificate in a folder.
fn section(folder: &Path) -> String {
    let folder = folder.display();
    format!("[[certificate]]\nchain = \"{folder}/chain.pem\"\nkey = \"{folder}/key.pem\"\n")
}

#[test]
fn a_certificate_is_made_checked_and_never_overwritten_unasked() {
    let folder = tempfile::tempdir().expect("a directory");
    let inner = folder.path().join("made");
    let made = make(
        &inner,
        &["tandem.localhost", "*.example.org", "127.0.0.1"],
        &[],
    );
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(
        text(&made.stdout).contains("[[certificate]]\nchain = "),
        "{}",
        text(&made.stdout)
    );
    let mode = std::fs::metadata(inner.join("key.pem"))
        .expect("a key")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = std::fs::read(inner.join("key.pem")).expect("a key");
    let again = make(&inner, &["tandem.localhost"], &[]);
    assert!(!again.status.success());
    assert!(
        text(&again.stderr).contains("already exists"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(std::fs::read(inner.join("key.pem")).expect("a key"), key);
    let forced = make(
        &inner,
        &["tandem.localhost"],
        &["--force", "--lifetime", "10d"],
    );
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert_ne!(std::fs::read(inner.join("key.pem")).expect("a key"), key);
    let file = folder.path().join("tandem.toml");
    std::fs::write(&file, section(&inner)).expect("written");
    let checked = tandem(&["check", "--config", file.to_str().expect("a path")]);
    let said = text(&checked.stdout);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(
        said.contains("certificate   tandem.localhost until 20"),
        "{said}"
    );
    assert!(said.contains("; it expires in "), "{said}");
    assert!(
        said.contains("tls           1.2 and later; clients' certificates: none"),
        "{said}"
    );
    std::fs::remove_file(inner.join("key.pem")).expect("removed");
    let checked = tandem(&["check", "--config", file.to_str().expect("a path")]);
    assert!(!checked.status.success());
    let complaint = text(&checked.stderr);
    assert!(
        complaint.contains("key.pem\"`: cannot be read: No such file"),
        "{complaint}"
    );
}

#[test]
fn names_that_are_none_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    for name in ["sip:example.org", "a b", "exam_ple.org:5061"] {
        let refused = make(folder.path(), &[name], &[]);
        assert!(!refused.status.success(), "{name}");
        assert!(
            text(&refused.stderr).contains("must be a domain, a host name"),
            "{name}"
        );
    }
    assert!(!folder.path().join("key.pem").exists());
}

#[test]
fn renewed_files_are_taken_over_by_a_reload_and_bad_ones_change_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    assert!(
        make(folder.path(), &["tandem.localhost"], &["--lifetime", "30d"])
            .status
            .success()
    );
    run(async {
        let (_place, server) = Place::new(&section(folder.path())).start_alone().await;
        let tls = server.running().tls.as_ref().expect("it is loaded");
        let first = tls.context();
        assert!(first.acceptor().is_some());
        let page = get(&server, "/metrics").await.1;
        let metric = "tandem_certificate_expiry_seconds{name=\"tandem.localhost\",file=\"";
        let line = page
            .lines()
            .find(|line| line.starts_with(metric))
            .expect("a sample");
        let left: f64 = line
            .rsplit(' ')
            .next()
            .and_then(|left| left.parse().ok())
            .expect("a number");
        assert!(
            Duration::from_secs_f64(left) > Duration::from_hours(24 * 29),
            "{line}"
        );
        assert_eq!(
            call(&server, "config.reload", none()).await,
            Ok(json!({ "changed": [] }))
        );
        assert!(
            make(folder.path(), &["tandem.localhost"], &["--force"])
                .status
                .success()
        );
        let reloaded = call(&server, "config.reload", none()).await;
        assert_eq!(reloaded, Ok(json!({ "changed": ["certificate"] })));
        let second = tls.context();
        assert!(!second.certificates().same_as(first.certificates()));
        std::fs::write(folder.path().join("key.pem"), "no key").expect("written");
        let problem = call(&server, "config.reload", none())
            .await
            .expect_err("it is wrong");
        assert!(
            problem.starts_with("config.reload: nothing changed: certificates have errors\n"),
            "{problem}"
        );
        assert!(problem.contains("key.pem: has no private key"), "{problem}");
        assert!(tls.context().certificates().same_as(second.certificates()));
    });
}

#[test]
fn a_server_does_not_start_with_a_certificate_that_cannot_be_used() {
    run(async {
        let folder = tempfile::tempdir().expect("a directory");
        let place = Place::new(&section(folder.path()));
        let configuration = tandem::config::load(Some(&place.file())).expect("right");
        let problem = tandem::serve::Server::start(None, configuration, None).await;
        let problem = problem.expect_err("there is no file").to_string();
        assert!(problem.contains("chain.pem: cannot be read"), "{problem}");
    });
}
