//! Aliases and call forwarding of a running server: set by operators, followed from the database, kept over a restart.
mod common;

use common::{Phone, Place, call, header, metric, none, response, run, tandem, text, until};
use serde_json::{Value, json};
use std::fmt::Write as _;
use tandem::serve::Server;
use tandem_store::{Alias, Forwarding, Store};

const OPEN: &str = "[auth]\nchallenge = []\n";

/// A server whose subscribers are alice, bob and carol; bob and carol are registered.
async fn with_phones(place: &Place) -> (Server, [Phone; 3]) {
    for user in ["alice", "bob", "carol"] {
        place.subscribe(user, "secret").await;
    }
    let server = place.start().await;
    let phones = ["alice", "bob", "carol"].map(|name| Phone::new(&server, name));
    for phone in &phones[1..] {
        assert_eq!(
            phone.register(&format!("register-{}", phone.name), 1).0,
            200
        );
    }
    (server, phones)
}

fn invite(alice: &Phone, user: &str, call_id: &str) {
    let uri = format!("sip:{user}@tandem.localhost");
    alice.send((1, "INVITE"), &uri, &uri, call_id, "");
}

/// The INVITE that a phone gets next; other requests are skipped.
fn rings(phone: &Phone) -> String {
    loop {
        let message = phone.receive();
        if message.starts_with("INVITE ") {
            return message;
        }
    }
}

/// Sends alice's ACK of a refusal, so that it is not repeated.
fn refuse(phone: &Phone, invite: &str, status: &str) {
    phone.send_raw(&response(invite, status));
}

async fn set(server: &Server, method: &'static str, params: Value) -> Value {
    call(server, method, params).await.expect("set")
}

#[test]
fn a_number_leads_to_its_subscriber_until_the_alias_is_deleted() {
    run(async {
        let place = Place::new(OPEN);
        let (server, [alice, bob, _]) = with_phones(&place).await;
        invite(&alice, "+4930123", "before");
        assert_eq!(alice.final_response("INVITE").0, 404);
        let params = json!({ "alias": "+4930123", "subscriber": "bob@tandem.localhost" });
        set(&server, "aliases.set", params).await;
        invite(&alice, "+4930123", "with");
        let ringing = rings(&bob);
        assert_eq!(
            header(&ringing, "To"),
            Some("<sip:+4930123@tandem.localhost>")
        );
        refuse(&bob, &ringing, "486 Busy Here");
        assert_eq!(alice.final_response("INVITE").0, 486);
        assert_eq!(metric(&server, "tandem_aliases").await, 1);
        let listed = set(&server, "aliases.list", none()).await;
        let alias = json!({ "alias": "+4930123", "subscriber": "bob@tandem.localhost" });
        assert_eq!(listed, json!({ "aliases": [alias], "next": null }));
        let deleted = set(&server, "aliases.delete", json!({ "alias": "+4930123" })).await;
        assert_eq!(deleted, json!({ "removed": true }));
        invite(&alice, "+4930123", "after");
        assert_eq!(alice.final_response("INVITE").0, 404);
        server.stop(false).await;
    });
}

#[test]
fn a_call_that_is_not_answered_goes_on_and_its_record_shows_where() {
    run(async {
        let place = Place::new(&format!("{OPEN}[records]\ndatabase = true\n"));
        let (server, [alice, bob, carol]) = with_phones(&place).await;
        let params = json!({
            "subscriber": "bob@tandem.localhost", "no_answer": "carol", "seconds": 1,
        });
        set(&server, "forwarding.set", params).await;
        invite(&alice, "bob", "forwarded");
        let first = rings(&bob);
        bob.send_raw(&response(&first, "180 Ringing"));
        let second = rings(&carol);
        let diversion = "<sip:bob@tandem.localhost>;reason=no-answer;counter=1";
        assert_eq!(header(&second, "Diversion"), Some(diversion));
        assert!(bob.receive().starts_with("CANCEL "));
        carol.send_raw(&response(&second, "200 OK"));
        let (status, answer) = alice.final_response("INVITE");
        assert_eq!(status, 200);
        alice.send_raw(&common::calls::in_dialog(&alice, &answer, (1, "ACK")));
        alice.send_raw(&common::calls::in_dialog(&alice, &answer, (2, "BYE")));
        let bye = loop {
            let message = carol.receive();
            if message.starts_with("BYE ") {
                break message;
            }
        };
        carol.send_raw(&response(&bye, "200 OK"));
        assert_eq!(alice.final_response("BYE").0, 200);
        let cause = "tandem_calls_diverted_total{cause=\"no_answer\"}";
        assert_eq!(metric(&server, cause).await, 1);
        let written = "tandem_call_records_written_total{to=\"database\"}";
        until("it is recorded", async || {
            metric(&server, written).await == 1
        })
        .await;
        server.stop(false).await;
        let records = records(&place).await;
        let expected = (
            "sip:bob@tandem.localhost".to_owned(),
            carol.address().to_string(),
            2,
        );
        assert_eq!(records, [expected]);
    });
}

/// Request-URI, destination and attempts of each call record.
async fn records(place: &Place) -> Vec<(String, String, i64)> {
    use sqlx::Connection as _;
    let mut connection = sqlx::SqliteConnection::connect(&place.database_url()).await;
    let connection = connection.as_mut().expect("a connection");
    let query = sqlx::query_as("SELECT request_uri, destination, attempts FROM call_record");
    query.fetch_all(connection).await.expect("records")
}

#[test]
fn another_process_changes_what_a_running_server_does() {
    run(async {
        let place = Place::new(OPEN);
        let (server, [alice, _, carol]) = with_phones(&place).await;
        let store = Store::open(&place.database_url()).await.expect("opens");
        let alias = Alias {
            username: "100".into(),
            domain: String::new(),
            subscriber: "carol@tandem.localhost".into(),
        };
        store.services().set_aliases(&[alias]).await.expect("sets");
        let forwarding = Forwarding {
            always: "sip:100@tandem.localhost".into(),
            ..Forwarding::default()
        };
        let services = store.services();
        let set = services.set_forwarding("bob", "tandem.localhost", &forwarding);
        assert!(set.await.expect("sets"));
        let metrics = ["tandem_aliases", "tandem_forwarding_subscribers"];
        until("the server follows", async || {
            metric(&server, metrics[0]).await == 1 && metric(&server, metrics[1]).await == 1
        })
        .await;
        invite(&alice, "bob", "to-bob");
        refuse(&carol, &rings(&carol), "603 Decline");
        assert_eq!(alice.final_response("INVITE").0, 603);
        let subscribers = store.subscribers();
        subscribers
            .remove("bob", "tandem.localhost")
            .await
            .expect("removes");
        until("it ends with its subscriber", async || {
            metric(&server, metrics[1]).await == 0
        })
        .await;
        server.stop(false).await;
    });
}

#[test]
fn a_restarted_server_knows_aliases_and_forwarding() {
    run(async {
        let place = Place::new(OPEN);
        let (server, phones) = with_phones(&place).await;
        let params = json!({ "alias": "100", "subscriber": "bob@tandem.localhost" });
        set(&server, "aliases.set", params).await;
        let params = json!({ "subscriber": "bob@tandem.localhost", "always": "carol" });
        let shown = set(&server, "forwarding.set", params).await;
        assert_eq!(shown["always"], "sip:carol@tandem.localhost");
        assert_eq!(shown["no_answer"], Value::Null);
        server.stop(false).await;
        drop(phones);
        let server = place.start().await;
        let [alice, carol] = ["alice", "carol"].map(|name| Phone::new(&server, name));
        assert_eq!(carol.register("again", 2).0, 200);
        invite(&alice, "100", "to-100");
        assert!(
            rings(&carol).contains("Diversion: <sip:bob@tandem.localhost>;reason=unconditional")
        );
        server.stop(true).await;
    });
}

#[test]
fn what_names_no_subscriber_is_refused_with_what_to_do() {
    run(async {
        let place = Place::new(OPEN);
        let (server, _phones) = with_phones(&place).await;
        let bob = "bob@tandem.localhost";
        for (method, params, problem) in [
            (
                "aliases.set",
                json!({ "alias": "1", "subscriber": "dave@tandem.localhost" }),
                "there is no subscriber dave",
            ),
            (
                "aliases.set",
                json!({ "alias": "1", "subscriber": "bob" }),
                "must be user@domain",
            ),
            (
                "aliases.set",
                json!({ "alias": "x@elsewhere.example", "subscriber": bob }),
                "one of this server: tandem.localhost",
            ),
            (
                "aliases.set",
                json!({ "alias": "a b", "subscriber": bob }),
                "must be a number or user@domain",
            ),
            (
                "forwarding.set",
                json!({ "subscriber": "dave@tandem.localhost", "busy": "1" }),
                "there is no subscriber dave",
            ),
            (
                "forwarding.set",
                json!({ "subscriber": bob, "busy": "tel:+1" }),
                "must be a number, user@domain or a SIP URI",
            ),
            (
                "forwarding.set",
                json!({ "subscriber": bob, "no_answer": "1", "seconds": 0 }),
                "from 1 to 180",
            ),
        ] {
            let refused = call(&server, method, params.clone()).await;
            let refused = refused.expect_err("refused");
            assert!(refused.contains(problem), "{method} {params}: {refused}");
        }
        assert_eq!(metric(&server, "tandem_aliases").await, 0);
        server.stop(true).await;
    });
}

/// What this command of the page prints, according to the page.
fn transcript(command: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/forwarding.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let command = format!("```sh\n{command}\n```\n```\n");
    let (_, output) = page.split_once(&command).expect("the command");
    let (output, _) = output.split_once("```").expect("its end");
    output.replace("example.org", "tandem.localhost")
}

#[test]
fn people_manage_them_on_the_command_line() {
    run(async {
        let place = Place::new(OPEN);
        let (server, _phones) = with_phones(&place).await;
        let admin = server.admin_address().to_string();
        let ctl = async |arguments: &'static str| {
            let admin = admin.clone();
            let output = common::blocking(move || {
                let mut all = vec!["ctl"];
                all.extend(arguments.split(' '));
                all.extend(["--admin", &admin]);
                tandem(&all)
            });
            let output = output.await;
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        let set_alias = "aliases set +4930123 bob@tandem.localhost";
        assert_eq!(
            ctl(set_alias).await,
            "+4930123 leads to bob@tandem.localhost\n"
        );
        let list = "ALIAS     SUBSCRIBER\n+4930123  bob@tandem.localhost\n";
        assert_eq!(ctl("aliases list").await, list);
        assert_eq!(ctl("aliases delete +4930123").await, "removed\n");
        assert_eq!(
            ctl("aliases delete +4930123").await,
            "there was nothing to remove\n"
        );
        assert_eq!(ctl("aliases list").await, "no aliases\n");
        let set = "forwarding set bob@tandem.localhost --busy carol --no-answer +4930 --after 30s";
        let shown = "CALLS             TARGET\n\
                     busy              sip:carol@tandem.localhost\n\
                     no answer for 30 s  sip:+4930@tandem.localhost\n";
        let shown = shown
            .replace("CALLS  ", "CALLS    ")
            .replace("busy  ", "busy    ");
        assert_eq!(ctl(set).await, shown);
        assert_eq!(ctl("forwarding show bob@tandem.localhost").await, shown);
        assert_eq!(
            ctl("forwarding delete bob@tandem.localhost").await,
            "removed\n"
        );
        let none = "bob@tandem.localhost forwards no calls\n";
        assert_eq!(ctl("forwarding show bob@tandem.localhost").await, none);

        ctl("forwarding set bob@tandem.localhost --no-answer carol --after 20s").await;
        ctl(set_alias).await;
        assert_eq!(
            ctl("routes explain sip:+4930123@tandem.localhost").await,
            transcript("tandem ctl routes explain sip:+4930123@example.org")
        );
        server.stop(true).await;
    });
}

#[test]
fn aliases_are_imported_and_wrong_lines_are_named() {
    run(async {
        let place = Place::new(OPEN);
        place.subscribe("bob", "secret").await;
        let file = place.file().with_file_name("numbers.csv");
        let mut lines = "alias,subscriber\n# Berlin\n\n".to_owned();
        for number in 0..2_500 {
            let _ = write!(lines, "+4930{number:04},bob@tandem.localhost\r\n");
        }
        lines += "+4931,dave@tandem.localhost\nx y,bob@tandem.localhost\n1\n";
        std::fs::write(&file, lines).expect("written");
        let config = place.file();
        let [file, config] = [file, config].map(|path| path.display().to_string());
        let output =
            common::blocking(move || tandem(&["alias", "import", &file, "--config", &config]));
        let output = output.await;
        assert!(!output.status.success());
        let notes = text(&output.stderr);
        for problem in [
            "numbers.csv:2504: there is no subscriber dave@tandem.localhost",
            "numbers.csv:2505: alias \"x y\": must be a number or user@domain",
            "numbers.csv:2506: must be alias,subscriber",
            "2500 aliases imported, 3 lines refused",
        ] {
            assert!(notes.contains(problem), "{notes}");
        }
        let server = place.start().await;
        assert_eq!(metric(&server, "tandem_aliases").await, 2_500);
        let page = json!({ "limit": 1, "after": "+49300001" });
        let page = set(&server, "aliases.list", page).await;
        assert_eq!(page["next"], "+49300002");
        server.stop(true).await;
    });
}
