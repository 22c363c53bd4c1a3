//! The commands from end to end, against a database file.

use super::*;
use clap::Parser;
use std::path::PathBuf;
use tempfile::TempDir;

#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: UserCommand,
}

/// A directory with a database, and the printed output.
struct Fixture {
    directory: TempDir,
    domains: Vec<String>,
    out: String,
    notes: String,
}

impl Fixture {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            domains: vec!["example.org".to_owned(), "example.net".to_owned()],
            out: String::new(),
            notes: String::new(),
        }
    }

    fn url(&self) -> String {
        format!(
            "sqlite:{}",
            self.directory.path().join("tandem.db").display()
        )
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        std::fs::write(&path, content).expect("writes");
        path.display().to_string()
    }

    /// Runs `tandem user <words>`.
    fn user(&mut self, words: &[&str]) -> Result<(), Failure> {
        let command = CommandLine::try_parse_from(std::iter::once(&"user").chain(words))
            .map_err(|error| Failure::Usage(error.to_string()))?
            .command;
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let url = self.url();
        let done = Session::new(&url, &self.domains, &mut out, &mut notes)
            .and_then(|mut session| session.perform(command));
        self.out = String::from_utf8(out).expect("UTF-8");
        self.notes = String::from_utf8(notes).expect("UTF-8");
        done
    }

    /// Runs a command that must fail and returns its error.
    fn complaint(&mut self, words: &[&str]) -> String {
        let failure = self.user(words).expect_err("fails");
        failure.lines().collect::<Vec<_>>().join("\n")
    }

    /// The stored credentials of this subscriber.
    fn stored(&self, username: &str, domain: &str) -> Option<tandem_store::StoredCredentials> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let store = Store::open_existing(&self.url()).await.expect("opens");
            store
                .subscribers()
                .find(username, domain)
                .await
                .expect("finds")
        })
    }

    /// Executes SQL on the database directly.
    fn execute(&self, sql: &'static str) {
        use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let options = SqliteConnectOptions::new().filename(self.directory.path().join("tandem.db"));
        runtime.block_on(async {
            let mut connection = options.connect().await.expect("connects");
            sqlx::query(sql)
                .execute(&mut connection)
                .await
                .expect("executes");
        });
    }

    fn has_password(&self, username: &str, domain: &str, password: &str) -> bool {
        let expected = hash::subscriber(username.to_owned(), domain.to_owned(), password);
        self.stored(username, domain) == Some(expected.credentials)
    }
}

#[test]
fn a_subscriber_is_added_listed_given_another_password_and_removed() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "sip:alice@Example.org", "--password", "secret"])
        .expect("adds");
    assert_eq!(fixture.out, "added alice@example.org\n");
    assert!(fixture.has_password("alice", "example.org", "secret"));
    fixture
        .user(&["add", "bob", "--password", "secret"])
        .expect("adds");
    assert_eq!(fixture.out, "added bob@example.org\n");
    assert_eq!(fixture.notes, "");
    fixture.user(&["list"]).expect("lists");
    assert_eq!(fixture.out, "alice@example.org\nbob@example.org\n");
    fixture
        .user(&["passwd", "alice@example.org", "--password", "other"])
        .expect("changes");
    assert!(fixture.has_password("alice", "example.org", "other"));
    fixture
        .user(&["remove", "alice@example.org"])
        .expect("removes");
    assert_eq!(fixture.out, "removed alice@example.org\n");
    assert_eq!(fixture.stored("alice", "example.org"), None);
}

#[test]
fn the_first_subscriber_makes_the_database_and_says_where() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "secret"])
        .expect("adds");
    assert!(
        fixture
            .notes
            .contains(&format!("created the database {}", fixture.url())),
        "{}",
        fixture.notes
    );
}

#[test]
fn commands_on_what_exists_make_no_database() {
    let mut fixture = Fixture::new();
    for words in [
        &["list"][..],
        &["remove", "alice"],
        &["passwd", "alice", "--password", "x"],
    ] {
        let complaint = fixture.complaint(words);
        assert!(complaint.contains("does not exist"), "{complaint}");
    }
    assert!(!fixture.directory.path().join("tandem.db").exists());
}

#[test]
fn failures_say_what_to_do() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "secret"])
        .expect("adds");
    for (words, advice) in [
        (
            &["add", "alice", "--password", "x"][..],
            "tandem user passwd alice@example.org",
        ),
        (
            &["passwd", "bob", "--password", "x"],
            "tandem user add bob@example.org",
        ),
        (&["remove", "bob"], "tandem user list"),
    ] {
        let complaint = fixture.complaint(words);
        assert!(complaint.contains(advice), "{complaint}");
    }
    assert!(fixture.has_password("alice", "example.org", "secret"));
}

#[test]
fn what_makes_no_sense_is_a_mistake_of_usage() {
    let mut fixture = Fixture::new();
    for words in [
        &["add", "al ice@example.org", "--password", "x"][..],
        &["add", "alice@example.org", "--password", ""],
        &[
            "add",
            "alice@example.org",
            "--password",
            "x",
            "--password-file",
            "-",
        ],
        &["list", "--limit", "0"],
        &["list", "--domain", "exa mple"],
        &["import"],
    ] {
        let failure = fixture.user(words).expect_err("makes no sense");
        assert!(
            matches!(failure, Failure::Usage(_)),
            "{words:?}: {failure:?}"
        );
    }
}

#[test]
fn a_domain_that_is_not_configured_is_warned_of() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice@example.com", "--password", "secret"])
        .expect("adds");
    let warning = "warning: example.com is not a configured domain (example.org, example.net)";
    assert!(fixture.notes.contains(warning), "{}", fixture.notes);
}

#[test]
fn a_list_is_limited_and_filtered() {
    let mut fixture = Fixture::new();
    for address in ["bob@example.org", "alice@example.org", "carol@example.net"] {
        fixture
            .user(&["add", address, "--password", "secret"])
            .expect("adds");
    }
    fixture.user(&["list", "--limit", "2"]).expect("lists");
    assert_eq!(fixture.out, "alice@example.org\nbob@example.org\n");
    assert_eq!(fixture.notes, "tandem: 2 of 3 subscribers\n");
    fixture
        .user(&["list", "--domain", "Example.NET"])
        .expect("lists");
    assert_eq!(
        (fixture.out.as_str(), fixture.notes.as_str()),
        ("carol@example.net\n", "")
    );
    fixture
        .user(&["list", "--domain", "example.com"])
        .expect("lists");
    assert!(
        fixture.notes.contains("no subscribers of example.com"),
        "{}",
        fixture.notes
    );
}

#[test]
fn a_list_is_json_when_asked_for() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "secret"])
        .expect("adds");
    fixture
        .user(&["add", "bob", "--password", "secret"])
        .expect("adds");
    fixture.user(&["list", "--json"]).expect("lists");
    let read: serde_json::Value = serde_json::from_str(&fixture.out).expect("JSON");
    let expected = serde_json::json!([
        { "username": "alice", "domain": "example.org" },
        { "username": "bob", "domain": "example.org" },
    ]);
    assert_eq!(read, expected);
    fixture
        .user(&["list", "--json", "--domain", "example.com"])
        .expect("lists");
    assert_eq!(fixture.out, "[]\n");
}

#[test]
fn an_import_adds_the_good_lines_and_names_the_bad_ones() {
    let mut fixture = Fixture::new();
    let file = fixture.file("users.csv", "username,domain,password\nalice,example.org,one\nbob,example.org\ncarol,example.org,\"t,wo\"\n");
    assert_eq!(fixture.user(&["import", &file]), Err(Failure::Incomplete));
    assert!(
        fixture.notes.contains(&format!(
            "{file}:3: expected username,domain,password, found 2 fields"
        )),
        "{}",
        fixture.notes
    );
    assert!(fixture.out.contains("3 lines in"), "{}", fixture.out);
    assert!(
        fixture.out.contains("2 added, 1 refused"),
        "{}",
        fixture.out
    );
    assert!(fixture.has_password("alice", "example.org", "one"));
    assert!(fixture.has_password("carol", "example.org", "t,wo"));
}

#[test]
fn an_import_keeps_existing_subscribers_without_replace() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "old"])
        .expect("adds");
    let file = fixture.file("users.csv", "bob,example.org,new\nalice,example.org,new\n");
    assert_eq!(fixture.user(&["import", &file]), Err(Failure::Incomplete));
    assert!(
        fixture
            .notes
            .contains(&format!("{file}:2: alice@example.org already exists")),
        "{}",
        fixture.notes
    );
    assert!(
        fixture.out.contains("1 added, 1 already exist"),
        "{}",
        fixture.out
    );
    assert!(fixture.has_password("alice", "example.org", "old"));
    fixture
        .user(&["import", "--replace", &file])
        .expect("replaces");
    assert!(
        fixture.out.contains("0 added, 2 replaced"),
        "{}",
        fixture.out
    );
    assert!(fixture.has_password("alice", "example.org", "new"));
}

#[test]
fn a_dry_run_touches_nothing() {
    let mut fixture = Fixture::new();
    let file = fixture.file("users.csv", "alice,example.org,one\nbob,example.org\n");
    assert_eq!(
        fixture.user(&["import", "--dry-run", &file]),
        Err(Failure::Incomplete)
    );
    assert!(
        fixture.out.contains("1 would be imported, 1 refused"),
        "{}",
        fixture.out
    );
    assert!(!fixture.directory.path().join("tandem.db").exists());
}

#[test]
fn a_long_file_is_looked_at_once() {
    let mut fixture = Fixture::new();
    let lines: Vec<String> = (0..250_000)
        .map(|number| format!("u{number},example.org,secret"))
        .collect();
    let file = fixture.file("users.csv", &lines.join("\n"));
    fixture
        .user(&["import", "--dry-run", &file])
        .expect("all lines are right");
    assert!(
        fixture.out.contains(": 250,000 would be imported"),
        "{}",
        fixture.out
    );
}

/// Standard output on a full disk.
struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "secret"])
        .expect("adds");
    let file = fixture.file("users.csv", "bob,example.org,secret\n");
    let url = fixture.url();
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["import", &file],
        &["remove", "alice"],
    ] {
        let command = CommandLine::parse_from(std::iter::once(&"user").chain(words)).command;
        let (mut out, mut notes) = (FullDisk, Vec::new());
        let done = Session::new(&url, &fixture.domains, &mut out, &mut notes)
            .and_then(|mut session| session.perform(command));
        let Err(Failure::Failed(complaint)) = done else {
            panic!("{words:?}: {done:?}");
        };
        assert!(
            complaint.contains("output cannot be written"),
            "{complaint}"
        );
    }
}

#[test]
fn complaints_about_lines_are_bounded() {
    let mut fixture = Fixture::new();
    let file = fixture.file("users.csv", &"wrong\n".repeat(1_000));
    assert_eq!(fixture.user(&["import", &file]), Err(Failure::Incomplete));
    assert_eq!(fixture.notes.matches("found 1 field").count(), 20);
    assert!(
        fixture.notes.contains("and 980 more lines like these"),
        "{}",
        fixture.notes
    );
    assert!(fixture.out.contains("1,000 lines in"), "{}", fixture.out);
}

#[test]
fn unconfigured_domains_of_a_file_are_warned_of_once_each_and_not_for_ever() {
    let mut fixture = Fixture::new();
    let lines: Vec<String> = (0..40)
        .map(|number| format!("u{number},d{}.example,secret", number / 2))
        .collect();
    let file = fixture.file("users.csv", &lines.join("\n"));
    fixture.user(&["import", &file]).expect("imports");
    assert_eq!(
        fixture.notes.matches("warning:").count(),
        5,
        "{}",
        fixture.notes
    );
    assert_eq!(fixture.notes.matches("d0.example").count(), 1);
}

#[test]
fn a_file_of_many_batches_is_imported_whole() {
    let mut fixture = Fixture::new();
    let lines: Vec<String> = (0..12_000)
        .map(|number| format!("u{number},example.org,secret{number}"))
        .collect();
    let file = fixture.file("users.csv", &lines.join("\n"));
    fixture.user(&["import", &file]).expect("imports");
    assert!(fixture.out.contains("12,000 lines in"), "{}", fixture.out);
    assert!(fixture.out.contains(": 12,000 added"), "{}", fixture.out);
    for number in [0, 4_999, 5_000, 11_999] {
        assert!(
            fixture.has_password(
                &format!("u{number}"),
                "example.org",
                &format!("secret{number}")
            ),
            "{number}"
        );
    }
}

/// The lines that were skipped because their subscribers exist: number and username.
fn lines_kept(fixture: &Fixture) -> Vec<(u64, &str)> {
    fixture
        .notes
        .lines()
        .filter_map(|line| {
            let said = line.strip_suffix("@example.org already exists and was kept unchanged")?;
            let (place, username) = said.rsplit_once(": ")?;
            Some((place.rsplit_once(':')?.1.parse().ok()?, username))
        })
        .collect()
}

#[test]
fn of_two_lines_for_one_name_the_first_adds_and_the_last_replaces() {
    let mut fixture = Fixture::new();
    let file = fixture.file(
        "users.csv",
        "bob,example.org,one\nalice,example.org,one\nbob,example.org,two\nbob,example.org,three\n",
    );
    assert_eq!(fixture.user(&["import", &file]), Err(Failure::Incomplete));
    assert!(fixture.has_password("bob", "example.org", "one"));
    assert_eq!(lines_kept(&fixture), [(3, "bob"), (4, "bob")]);
    assert_eq!(fixture.user(&["import", &file]), Err(Failure::Incomplete));
    let in_order = [(1, "bob"), (2, "alice"), (3, "bob"), (4, "bob")];
    assert_eq!(lines_kept(&fixture), in_order);
    fixture
        .user(&["import", "--replace", &file])
        .expect("replaces");
    assert!(fixture.has_password("bob", "example.org", "three"));
}

#[test]
fn an_import_that_fails_halfway_says_how_far_it_came() {
    let mut fixture = Fixture::new();
    fixture
        .user(&["add", "alice", "--password", "secret"])
        .expect("adds");
    fixture.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON subscriber WHEN NEW.username = 'u07000' \
         BEGIN SELECT RAISE(ABORT, 'refused by a test'); END",
    );
    let lines: Vec<String> = (0..12_000)
        .map(|number| format!("u{number:05},example.org,secret"))
        .collect();
    let file = fixture.file("users.csv", &lines.join("\n"));
    let complaint = fixture.complaint(&["import", &file]);
    assert!(complaint.contains("refused by a test"), "{complaint}");
    assert!(fixture.out.contains(": 5,000 added"), "{}", fixture.out);
    assert!(fixture.has_password("u04999", "example.org", "secret"));
    assert_eq!(fixture.stored("u05000", "example.org"), None);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut fixture = Fixture::new();
    let complaint = fixture.complaint(&["import", "/nowhere/users.csv"]);
    assert!(
        complaint.contains("/nowhere/users.csv cannot be read"),
        "{complaint}"
    );
    let directory = fixture.directory.path().display().to_string();
    let complaint = fixture.complaint(&["import", &directory]);
    assert!(complaint.contains("is a directory"), "{complaint}");
}

#[test]
fn no_clear_text_password_reaches_the_database() {
    let mut fixture = Fixture::new();
    let password = "correct-horse-battery";
    fixture
        .user(&["add", "alice", "--password", password])
        .expect("adds");
    for entry in std::fs::read_dir(fixture.directory.path()).expect("lists") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("reads");
        assert!(
            !bytes
                .windows(password.len())
                .any(|window| window == password.as_bytes())
        );
    }
}
