//! `tandem control` and `tandem fleet` as operators run them, with two real servers as the nodes of a fleet.
mod common;

use common::{PATIENCE, Phone, Place, run, text, until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tandem::serve::Server;
use tandem_store::Store;

const TOKEN: &str = "0123456789abcdef";
const OPEN: &str = "[auth]\nchallenge = []\n";

/// `tandem control` in a process of its own. It is killed when the test ends.
struct Controller {
    process: Child,
    folder: tempfile::TempDir,
    api: String,
}

impl Controller {
    /// Starts it with these lines as the rest of its configuration, and waits until its API is open.
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).expect("written");
        let api = format!(
            "[api]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n",
            token.display()
        );
        std::fs::write(folder.path().join("control.toml"), api + more).expect("written");
        let (process, api) = launch(folder.path());
        Self {
            process,
            folder,
            api,
        }
    }

    /// Kills it, and starts it again at another port.
    fn restart(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
        (self.process, self.api) = launch(self.folder.path());
    }

    /// Runs `tandem fleet`.
    fn fleet(&self, arguments: &[&str]) -> Output {
        let token = self.folder.path().join("token").display().to_string();
        common::tandem(
            &[
                &["fleet"],
                arguments,
                &["--controller", &self.api, "--token-file", &token],
            ]
            .concat(),
        )
    }

    /// Status and JSON of a request to the API.
    fn request(&self, verb: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let url = format!("http://{}{path}", self.api);
        let bearer = format!("Bearer {TOKEN}");
        let response = match (verb, body) {
            ("GET", _) => agent.get(&url).header("authorization", &bearer).call(),
            (_, body) => {
                let post = agent
                    .post(&url)
                    .header("authorization", &bearer)
                    .header("content-type", "application/json");
                post.send(body.map(ToString::to_string).unwrap_or_default())
            }
        };
        let mut response = response.expect("the API answers");
        let body = response.body_mut().read_to_string().expect("text");
        (
            response.status().as_u16(),
            serde_json::from_str(&body).unwrap_or_default(),
        )
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(folder: &Path) -> (Child, String) {
    let file = folder.join("control.toml").display().to_string();
    let mut process = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["control", "--config", &file])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut log = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let api = log
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("api=")
                .map(|(_, api)| api.trim().to_owned())
        })
        .expect("the controller says where its API is");
    // Its log must not fill the pipe.
    std::thread::spawn(move || log.for_each(drop));
    (process, api)
}

/// A node with its section of a static fleet.
fn listed(name: &str, server: &Server) -> String {
    let (address, admin) = (
        server.running().listeners[0].address,
        server.admin_address(),
    );
    format!("[[member]]\nname = \"{name}\"\naddress = \"{address}\"\nadmin = \"{admin}\"\n")
}

#[test]
fn registrations_and_histograms_of_two_nodes_are_shown_as_one() {
    run(async {
        let (one, other) = (Place::new(OPEN), Place::new(OPEN));
        let (first, second) = (one.start().await, other.start().await);
        for (server, name) in [(&first, "alice"), (&second, "bob"), (&second, "carol")] {
            assert_eq!(Phone::new(server, name).register(name, 1).0, 200);
        }
        let controller = Controller::start(&(listed("sip-1", &first) + &listed("sip-2", &second)));
        let controller = &controller;
        until("all registrations are listed", async || {
            let (status, page) = controller.request("GET", "/v1/registrations?limit=2", None);
            if status == 503 {
                // It has not read its source of members yet.
                return false;
            }
            assert_eq!((status, &page["answered"]), (200, &json!(2)), "{page}");
            let names: Vec<&str> = page["addresses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| it["address"].as_str())
                .collect();
            names == ["alice@tandem.localhost", "bob@tandem.localhost"]
                && page["next"] == "bob@tandem.localhost"
        })
        .await;
        let (_, page) =
            controller.request("GET", "/v1/registrations?after=bob@tandem.localhost", None);
        assert_eq!(
            page["addresses"][0]["address"], "carol@tandem.localhost",
            "{page}"
        );
        assert_eq!(
            page["addresses"][0]["bindings"][0]["nodes"],
            json!(["sip-2"])
        );
        let (_, shown) = controller.request(
            "GET",
            "/v1/histograms?name=tandem_request_duration_seconds",
            None,
        );
        let histograms = shown["histograms"].as_array().expect("a list");
        let register = histograms
            .iter()
            .find(|it| it["labels"]["method"] == "REGISTER");
        assert_eq!(
            register.map(|it| &it["count"]),
            Some(&json!(3.0)),
            "{shown}"
        );
        for server in [first, second] {
            server.drain().await;
            server.stop(true).await;
        }
    });
}

#[test]
fn hooks_enable_drain_and_remove_a_node_and_a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json").display().to_string();
    let mut controller = Controller::start(&format!(
        "[members]\nsource = \"api\"\nstate_file = \"{state}\"\n"
    ));
    for (name, port) in [("sip-1", 5060), ("sip-2", 5061)] {
        let address = format!("192.0.2.11:{port}");
        let enabled = controller.fleet(&[
            "enable",
            "--instance",
            name,
            "--name",
            name,
            "--address",
            &address,
        ]);
        assert!(enabled.status.success(), "{}", text(&enabled.stderr));
    }
    let drained = controller.fleet(&["drain", "--instance", "sip-1"]);
    assert_eq!(text(&drained.stdout), "sip-1 is draining; member set 3\n");
    let refused = controller.fleet(&["drain", "--instance", "sip-2"]);
    assert!(
        !refused.status.success()
            && text(&refused.stderr).contains("sip-2 is the last active node"),
        "{}",
        text(&refused.stderr)
    );
    controller.restart();
    let list = text(&controller.fleet(&["list"]).stdout);
    assert!(
        list.contains("sip-1     sip-1  192.0.2.11:5060  draining  drained by an operator"),
        "{list}"
    );
    assert!(
        controller
            .fleet(&["enable", "--instance", "sip-1"])
            .status
            .success()
    );
    assert!(
        controller
            .fleet(&["remove", "--instance", "sip-2"])
            .status
            .success()
    );
    let list = text(&controller.fleet(&["list", "--json"]).stdout);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["nodes"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list["nodes"][0]["state"], "active");
    std::fs::write(controller.folder.path().join("token"), "fedcba9876543210").expect("written");
    let stranger = controller.fleet(&["list"]);
    assert!(
        text(&stranger.stderr).contains("requires a token"),
        "{}",
        text(&stranger.stderr)
    );
}

#[test]
fn test_users_can_register() {
    run(async {
        let place = Place::new("");
        let server = place.start().await;
        let database = format!("[database]\nurl = \"{}\"\n", place.database_url());
        let controller = Controller::start(&(database + &listed("sip-1", &server)));
        let users = json!({ "domain": "tandem.localhost", "user": "user{:04}", "password": "secret{}", "first": 7, "count": 6000 });
        let (status, added) = controller.request("POST", "/v1/users", Some(&users));
        assert_eq!(
            (status, added),
            (200, json!({ "added": 6000, "replaced": 0, "kept": 0 }))
        );
        let (_, again) = controller.request("POST", "/v1/users", Some(&users));
        assert_eq!(again, json!({ "added": 0, "replaced": 0, "kept": 6000 }));
        let store = Store::open(&place.database_url()).await.expect("open");
        let found = store
            .subscribers()
            .find("user0042", "tandem.localhost")
            .await
            .expect("read");
        assert!(found == Some(common::subscriber("user0042", "secret42").credentials));
        store.close().await;
        server.drain().await;
        server.stop(true).await;
    });
}

#[test]
fn a_controller_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("control.toml").display().to_string();
    let fails = |text_of_file: &str, problem: &str| {
        std::fs::write(&file, text_of_file).expect("written");
        let begun = std::time::Instant::now();
        let output = common::tandem(&["control", "--config", &file]);
        assert!(
            !output.status.success() && text(&output.stderr).contains(problem),
            "{}",
            text(&output.stderr)
        );
        assert!(begun.elapsed() < PATIENCE);
    };
    let node = "[[member]]\nname = \"a\"\naddress = \"192.0.2.11:5060\"\n";
    fails(
        &format!("[api]\ntoken_file = \"/nowhere/token\"\n{node}"),
        "/nowhere/token",
    );
    fails(node, "`api.token_file`");
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).expect("written");
    let api = format!(
        "[api]\nlisten = \"192.0.2.1:1\"\ntoken_file = \"{}\"\n{node}",
        token.display()
    );
    fails(&api, "the API cannot listen on 192.0.2.1:1");
}
