//! The admin interface of a running server: health, metrics, JSON-RPC, and the consistency of the documentation.
mod common;

use common::{PATIENCE, Phone, Place, blocking, call, get, metric, none, post, run};
use serde_json::{Value, json};
use sqlx::Connection as _;
use std::collections::BTreeSet;
use tandem::ctl::Access;

const DOCUMENTATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{DOCUMENTATION}/{name}")).expect("the page is there")
}

#[test]
fn a_running_server_is_live_and_ready() {
    run(async {
        let server = Place::new("").start_alone().await;
        assert_eq!(
            get(&server.1, "/health/live").await,
            (200, "{\"status\":\"live\"}\n".to_owned())
        );
        assert_eq!(
            get(&server.1, "/health/ready").await,
            (200, "{\"status\":\"ready\"}\n".to_owned())
        );
        assert_eq!(get(&server.1, "/nothing").await.0, 404);
    });
}

/// Labels whose values are open-ended or explain themselves.
const UNEXPLAINED_LABELS: [&str; 10] = [
    "class", "code", "file", "gateway", "limit", "method", "name", "rule", "version", "worker",
];

#[test]
fn every_metric_is_on_the_page_and_every_label_value_is_documented() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let (status, text) = get(&server, "/metrics").await;
        assert_eq!(status, 200);
        let reference = page("metrics.md");
        let documented = reference.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((name, rest.split(' ').next()?))
        });
        let shown: BTreeSet<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
            .collect();
        let expected: BTreeSet<(&str, &str)> = documented
            .map(|(name, kind)| (name.strip_suffix("_total").unwrap_or(name), kind))
            .collect();
        assert_eq!(shown, expected);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "no number: {line}");
            let labels = series.split_once('{').map_or("", |(_, labels)| labels);
            for (label, value) in labels.split(',').filter_map(|it| it.split_once("=\"")) {
                let value = value.trim_end_matches(['"', '}']);
                assert!(
                    label == "le"
                        || UNEXPLAINED_LABELS.contains(&label)
                        || reference.contains(&format!("`{value}`")),
                    "{value} is not documented: {line}"
                );
            }
        }
    });
}

#[test]
fn metrics_count_what_happens() {
    run(async {
        let (_place, server) = Place::new("[auth]\nchallenge = []\n").start_alone().await;
        let phone = Phone::new(&server, "alice");
        assert_eq!(phone.register("a", 1).0, 200);
        assert_eq!(
            metric(&server, "tandem_requests_total{method=\"REGISTER\"}").await,
            1
        );
        assert_eq!(
            metric(&server, "tandem_responses_sent_total{code=\"200\"}").await,
            1
        );
        assert_eq!(metric(&server, "tandem_registrations").await, 1);
        assert_eq!(
            metric(
                &server,
                "tandem_request_duration_seconds_count{method=\"REGISTER\"}"
            )
            .await,
            1
        );
        assert!(metric(&server, "tandem_datagrams_received_total").await >= 1);
        assert!(metric(&server, "tandem_process_resident_memory_bytes").await > 1_000_000);
        assert!(metric(&server, "tandem_receive_buffer_bytes{worker=\"1\"}").await > 10_000);
    });
}

#[test]
fn json_rpc_answers_as_its_specification_says() {
    let rows = [
        ("{", json!({ "code": -32700, "id": null })),
        ("[]", json!({ "code": -32600, "id": null })),
        ("5", json!({ "code": -32600, "id": null })),
        (
            r#"{"jsonrpc": "1.0", "id": 1, "method": "node.version"}"#,
            json!({ "code": -32600, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": {}, "method": "node.version"}"#,
            json!({ "code": -32600, "id": null }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": "x", "method": 1}"#,
            json!({ "code": -32600, "id": "x" }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "node.version", "params": 5}"#,
            json!({ "code": -32600, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "node.versoin"}"#,
            json!({ "code": -32601, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "location.get"}"#,
            json!({ "code": -32602, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "location.list", "params": {"limit": 0}}"#,
            json!({ "code": -32602, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "location.list", "params": {"limt": 1}}"#,
            json!({ "code": -32602, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "node.version", "params": [1]}"#,
            json!({ "code": -32602, "id": 1 }),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "location.get", "params": {"address": "alice"}}"#,
            json!({ "code": -32602, "id": 1 }),
        ),
    ];
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        for (request, expected) in rows {
            let (status, body) = post(&server, "application/json", request.to_owned()).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            let found = json!({ "code": answer["error"]["code"], "id": answer["id"] });
            assert_eq!(
                (status, &found),
                (200, &expected),
                "{request} was answered {answer}"
            );
            assert_eq!(answer["jsonrpc"], "2.0");
        }
        let hint = call(&server, "node.versoin", none()).await;
        assert_eq!(
            hint,
            Err("node.versoin: unknown method node.versoin: did you mean node.version?".to_owned())
        );
    });
}

#[test]
fn batches_are_answered_in_order_and_notifications_not_at_all() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let batch = r#"[
            {"jsonrpc": "2.0", "id": 1, "method": "subscribers.count"},
            {"jsonrpc": "2.0", "method": "node.version"},
            7,
            {"jsonrpc": "2.0", "id": "b", "method": "location.remove", "params": ["bob@tandem.localhost"]}
        ]"#;
        let (status, body) =
            post(&server, "application/json; charset=utf-8", batch.to_owned()).await;
        let answers: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(status, 200);
        assert_eq!(
            answers[0],
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "subscribers": 0 } })
        );
        assert_eq!(answers[1]["error"]["code"], -32600);
        assert_eq!(
            answers[2],
            json!({ "jsonrpc": "2.0", "id": "b", "result": { "removed": 0 } })
        );
        assert_eq!(answers.as_array().map(Vec::len), Some(3));
        let notification = r#"{"jsonrpc": "2.0", "method": "node.version"}"#;
        assert_eq!(
            post(&server, "application/json", notification.to_owned()).await,
            (204, String::new())
        );
        let batch = format!("[{notification}, {notification}]");
        assert_eq!(
            post(&server, "application/json", batch).await,
            (204, String::new())
        );
    });
}

#[test]
fn what_a_web_page_could_send_unasked_and_what_is_too_large_is_refused() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let drain = r#"{"jsonrpc": "2.0", "method": "node.drain"}"#.to_owned();
        assert_eq!(post(&server, "text/plain", drain).await.0, 415);
        assert_eq!(get(&server, "/health/ready").await.0, 200);
        assert_eq!(
            post(&server, "application/json", " ".repeat((1 << 20) + 1))
                .await
                .0,
            413
        );
    });
}

/// Creates an empty table like that of Kamailio's module `dispatcher`.
async fn create_dispatcher(place: &Place) {
    let store = tandem_store::Store::open(&place.database_url()).await;
    store.expect("opens").close().await;
    let database = sqlx::SqliteConnection::connect(&place.database_url()).await;
    let table = "CREATE TABLE dispatcher (setid INTEGER, destination TEXT, flags INTEGER, priority INTEGER, attrs TEXT)";
    let mut database = database.expect("opens");
    let created = sqlx::raw_sql(table).execute(&mut database).await;
    created.expect("created");
}

#[test]
fn every_method_is_documented_and_every_documented_example_works() {
    run(async {
        let place = Place::new("");
        let prefixes = place.file().with_file_name("prefixes.csv");
        std::fs::write(&prefixes, "prefix,groups\n4930,berlin\n").expect("the file is written");
        place.configure(&format!(
            "[[gateway]]\nname = \"berlin-1\"\ndestination = \"sip:192.0.2.10\"\nprobe = false\n[[group]]\nname = \"berlin\"\n\
             members = [\"berlin-1\"]\n[prefixes]\nsource = \"file\"\nfile = \"{}\"\n[dispatcher]\nsource = \"database\"\n",
            prefixes.display()
        ));
        place.subscribe("alice", "secret").await;
        create_dispatcher(&place).await;
        let (_place, server) = place.start_alone().await;
        let page = page("admin.md");
        let mut shown = BTreeSet::new();
        for example in page.split("```json request\n").skip(1) {
            let (request, rest) = example.split_once("```").expect("the block ends");
            let (_, body) = post(&server, "application/json", request.to_owned()).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            match rest.trim_start().strip_prefix("```json answer\n") {
                Some(expected) => {
                    let expected = expected.split("```").next().unwrap_or_default();
                    let expected: Value = serde_json::from_str(expected).expect("JSON");
                    assert_eq!(answer, expected, "to {request}");
                }
                None => assert!(
                    answer.get("result").is_some(),
                    "{request} was answered {answer}"
                ),
            }
            let request: Value = serde_json::from_str(request).expect("JSON");
            shown.insert(request["method"].as_str().expect("a method").to_owned());
        }
        let known: BTreeSet<String> = tandem::admin::METHODS
            .iter()
            .map(|method| method.name.to_owned())
            .collect();
        assert_eq!(shown, known);
        let headed: BTreeSet<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
            .map(str::to_owned)
            .collect();
        assert_eq!(headed, known);
    });
}

#[test]
fn locations_are_listed_by_pages_found_and_removed() {
    run(async {
        let (_place, server) = Place::new("[auth]\nchallenge = []\n").start_alone().await;
        let names = ["alice", "bob", "carol", "dave", "erin"];
        let phones = names.map(|name| Phone::new(&server, name));
        for phone in &phones {
            assert_eq!(phone.register("r", 1).0, 200);
        }
        let mut listed = Vec::new();
        let mut after = Value::Null;
        let mut pages = 0;
        loop {
            let page = call(
                &server,
                "location.list",
                json!({ "limit": 2, "after": after }),
            )
            .await
            .expect("a page");
            for entry in page["addresses"].as_array().expect("a list") {
                listed.push(entry["address"].as_str().expect("an address").to_owned());
                assert_eq!(entry["bindings"].as_array().map(Vec::len), Some(1));
            }
            pages += 1;
            after = page["next"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(listed, names.map(|name| format!("{name}@tandem.localhost")));
        assert_eq!(pages, 3);
        let found = call(
            &server,
            "location.get",
            json!({ "address": "sip:alice@TANDEM.localhost" }),
        )
        .await
        .expect("found");
        let binding = &found["bindings"][0];
        assert_eq!(
            binding["contact"],
            format!("sip:alice@{}", phones[0].address())
        );
        assert_eq!(binding["source"], phones[0].address().to_string());
        assert!(
            binding["expires_in"]
                .as_u64()
                .is_some_and(|left| (590..=600).contains(&left)),
            "{binding}"
        );
        let removed = call(
            &server,
            "location.remove",
            json!({ "address": "alice@tandem.localhost" }),
        )
        .await;
        assert_eq!(removed, Ok(json!({ "removed": 1 })));
        let found = call(
            &server,
            "location.get",
            json!({ "address": "alice@tandem.localhost" }),
        )
        .await
        .expect("answered");
        assert_eq!(found["bindings"], json!([]));
    });
}

#[test]
fn status_and_configuration_say_what_runs() {
    run(async {
        let (place, server) = Place::new("[timers]\nt1 = \"250ms\"\n").start_alone().await;
        let status = call(&server, "node.status", none())
            .await
            .expect("a status");
        assert_eq!(status["phase"], "ready");
        assert_eq!(status["workers"], 2);
        assert_eq!(status["domains"], json!(["tandem.localhost"]));
        assert_eq!(status["configuration"], place.file().display().to_string());
        let address = server.running().listeners[0].address;
        assert_eq!(status["listeners"][0]["address"], address.to_string());
        let shown = call(&server, "config.show", none())
            .await
            .expect("a configuration");
        assert_eq!(shown["timers"]["t1"], "250ms");
        assert_eq!(shown["timers"]["t2"], "4s");
        assert_eq!(shown["listen"][0]["transport"], "udp");
    });
}

#[test]
fn a_server_that_is_still_starting_is_live_but_not_ready() {
    run(async {
        let place = Place::new("");
        let configuration = tandem::config::load(Some(&place.file())).expect("right");
        let control = std::sync::Arc::new(tandem::control::Control::new(
            Some(place.file()),
            configuration,
            None,
        ));
        let admin = tandem::admin::listen(&control).await.expect("it listens");
        let url = format!("http://{}", admin.address());
        assert_eq!(common::http_get(format!("{url}/health/live")).await.0, 200);
        let (status, body) = common::http_get(format!("{url}/health/ready")).await;
        assert_eq!(status, 503);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["phase"], "starting");
        assert!(
            body["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains("starting")),
            "{body}"
        );
        let (status, page) = common::http_get(format!("{url}/metrics")).await;
        assert_eq!(status, 200);
        assert!(
            page.contains("\ntandem_ready 0\n") && !page.contains("tandem_registrations"),
            "{page}"
        );
        let rpc = |method: &'static str| {
            let access = Access::to(url.parse().expect("an address"), None);
            blocking(move || {
                tandem::ctl::call(&access, method, &none(), PATIENCE)
                    .map_err(|error| format!("{error:#}"))
            })
        };
        let status = rpc("node.status").await.expect("a status");
        assert_eq!(status["phase"], "starting");
        assert_eq!(status["listeners"], json!([]));
        for method in ["stats.summary", "subscribers.count", "config.reload"] {
            let refused = Err(format!("{method}: the server is starting"));
            assert_eq!(rpc(method).await, refused);
        }
    });
}
