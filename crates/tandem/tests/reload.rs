//! `config.reload`: all changes of a file are applied, or none, and the response says why.
mod common;

use common::{Phone, Place, call, get, metric, none, run};
use serde_json::json;
use tandem::serve::Server;

/// The `Server` header field that the server sends.
fn server_header(phone: &Phone, server: &Server, call_id: &str) -> String {
    let uri = format!("sip:{}", server.running().listeners[0].address);
    phone.send((1, "OPTIONS"), &uri, &uri, call_id, "");
    let (status, response) = phone.final_response("OPTIONS");
    assert_eq!(status, 200, "{response}");
    common::header(&response, "Server")
        .unwrap_or_default()
        .to_owned()
}

/// Queries both workers: each of them is the home of one of these Call-IDs.
fn headers_of_all_workers(phone: &Phone, server: &Server, round: &str) -> Vec<String> {
    let mut headers: Vec<String> = (0..8)
        .map(|number| server_header(phone, server, &format!("{round}-{number}")))
        .collect();
    headers.dedup();
    headers
}

#[test]
fn a_changed_file_is_taken_over_by_every_worker_at_once() {
    run(async {
        let (place, server) = Place::new("").start_alone().await;
        let phone = Phone::new(&server, "alice");
        assert_eq!(
            headers_of_all_workers(&phone, &server, "before"),
            ["Tandem"]
        );
        let address = server.running().listeners[0].address;
        let text = std::fs::read_to_string(place.file()).expect("the file");
        place.configure_exactly(&format!(
            "server_header = \"Other\"\n{text}\n[timers]\nt1 = \"200ms\"\n"
        ));
        let reloaded = call(&server, "config.reload", none()).await;
        assert_eq!(
            reloaded,
            Ok(json!({ "changed": ["server_header", "timers.t1"] }))
        );
        assert_eq!(headers_of_all_workers(&phone, &server, "after"), ["Other"]);
        assert_eq!(server.running().listeners[0].address, address);
        assert_eq!(
            call(&server, "config.reload", none()).await,
            Ok(json!({ "changed": [] }))
        );
        assert_eq!(
            metric(&server, "tandem_reloads_total{result=\"applied\"}").await,
            2
        );
    });
}

#[test]
fn a_wrong_file_changes_nothing_and_every_mistake_is_reported() {
    run(async {
        let (place, server) = Place::new("").start_alone().await;
        let phone = Phone::new(&server, "alice");
        let good = std::fs::read_to_string(place.file()).expect("the file");
        place.configure_exactly(&format!(
            "server_header = \"Other\"\n{good}\n[timers]\nt3 = 1\nt1 = \"now\"\n"
        ));
        let problem = call(&server, "config.reload", none())
            .await
            .expect_err("it is wrong");
        let lines: Vec<&str> = problem.lines().collect();
        assert_eq!(
            lines[0],
            "config.reload: nothing changed: the file has errors"
        );
        assert!(
            lines[1].contains("tandem.toml:") && lines[1].contains("unknown key `t3` in [timers]"),
            "{problem}"
        );
        assert!(
            lines[2].contains("`timers.t1 = \"now\"`: must be a duration"),
            "{problem}"
        );
        assert_eq!(headers_of_all_workers(&phone, &server, "after"), ["Tandem"]);
        assert_eq!(
            metric(&server, "tandem_reloads_total{result=\"rejected\"}").await,
            1
        );
        place.configure_exactly(&good);
        assert_eq!(
            call(&server, "config.reload", none()).await,
            Ok(json!({ "changed": [] })),
            "a failed reload does not stick"
        );
    });
}

#[test]
fn keys_that_need_a_restart_are_refused_by_name_and_nothing_else_changes() {
    run(async {
        let (place, server) = Place::new("").start_alone().await;
        let phone = Phone::new(&server, "alice");
        let good = std::fs::read_to_string(place.file()).expect("the file");
        let changed = good
            .replace("count = 2", "count = 3")
            .replace("127.0.0.1:0", "127.0.0.1:1");
        place.configure_exactly(&format!("server_header = \"Other\"\n{changed}"));
        let problem = call(&server, "config.reload", none())
            .await
            .expect_err("it cannot change");
        assert_eq!(
            problem,
            "config.reload: nothing changed: `listen`, `workers.count`, `admin.listen` cannot change while the server runs; \
             restart the server, or revert them"
        );
        assert_eq!(headers_of_all_workers(&phone, &server, "after"), ["Tandem"]);
        assert_eq!(get(&server, "/health/ready").await.0, 200);
    });
}

#[test]
fn without_a_file_there_is_nothing_to_reload() {
    run(async {
        let place = Place::new("");
        let configuration = tandem::config::load(Some(&place.file())).expect("right");
        let server = Server::start(None, configuration, None)
            .await
            .expect("it starts");
        let problem = call(&server, "config.reload", none()).await;
        let expected = "config.reload: the server was started without --config: no file to reload";
        assert_eq!(problem, Err(expected.to_owned()));
    });
}
