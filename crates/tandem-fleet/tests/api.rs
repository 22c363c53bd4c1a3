//! The API over real HTTP: orders of operators in both syntaxes, and what it refuses.
mod common;

use common::{Api, TOKEN, fixed, options};
use serde_json::json;
use tandem_fleet::Controller;
use tandem_fleet::source::Source;

#[tokio::test]
async fn a_node_is_drained_enabled_and_removed() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    assert_eq!(api.states().await, "a=active b=active");
    assert_eq!(
        api.post("/v1/nodes/a/drain", &json!(null)).await,
        (200, json!({ "generation": 2 }))
    );
    assert_eq!(api.states().await, "a=draining b=active");
    let (status, nodes) = api.get("/v1/nodes").await;
    assert_eq!(
        (status, &nodes["nodes"][0]["override"], &nodes["source"]),
        (200, &json!("drain"), &json!("static"))
    );
    assert_eq!(
        api.post("/v1/nodes/a/enable", &json!(null)).await,
        (200, json!({ "generation": 3 }))
    );
    assert_eq!(
        api.delete("/v1/nodes/b").await,
        (200, json!({ "generation": 4 }))
    );
    assert_eq!(api.states().await, "a=active");
    let record = json!({ "instance": "b", "name": "name-b", "address": "10.0.0.1:5061" });
    assert_eq!(api.post("/v1/nodes", &record).await.0, 200);
    assert_eq!(api.states().await, "a=active b=active");
}

#[tokio::test]
async fn both_syntaxes_have_the_same_methods() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    assert_eq!(
        api.rpc("members.get", json!({})).await["result"],
        api.get("/v1/members").await.1
    );
    assert_eq!(
        api.rpc("rpc.methods", json!({})).await["result"],
        api.get("/v1/methods").await.1
    );
    let drained = api.rpc("nodes.drain", json!(["a"])).await;
    assert_eq!(drained["result"]["generation"], 2, "{drained}");
    let refused = api.rpc("nodes.drain", json!({ "instance": "b" })).await;
    assert_eq!(refused["error"]["code"], -32_000, "{refused}");
    let unknown = api.rpc("nodes.drian", json!({})).await;
    assert!(
        unknown["error"]["message"]
            .as_str()
            .is_some_and(|it| it.contains("did you mean nodes.drain?")),
        "{unknown}"
    );
}

#[tokio::test]
async fn nothing_but_health_is_open_to_callers_without_the_token() {
    let controller = Controller::start(options(fixed(&["a"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    let (_, methods) = api.get("/v1/methods").await;
    let methods = methods.as_array().expect("a list");
    let paths = methods
        .iter()
        .flat_map(|it| it["paths"].as_array().cloned().unwrap_or_default());
    let mut paths: Vec<String> = paths
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    paths.extend(
        [
            "GET /",
            "GET /metrics",
            "POST /rpc",
            "GET /v1/members/watch",
            "GET /unknown",
        ]
        .map(str::to_owned),
    );
    assert!(paths.len() > 12, "{paths:?}");
    for path in paths {
        let (verb, path) = path.split_once(' ').expect("a verb and a path");
        let path = path.replace("{instance}", "a");
        for token in [
            None,
            Some(""),
            Some("0123456789abcdeF"),
            Some("0123456789abcdef0"),
        ] {
            let (status, _) = api.request(verb, &path, token, "").await;
            assert_eq!(status, 401, "{verb} {path} with {token:?}");
        }
    }
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(api.request("GET", path, None, "").await.0, 200);
    }
}

#[tokio::test]
async fn wrong_requests_get_the_status_that_says_why() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    let record = |instance: &str, address: &str| json!({ "instance": instance, "name": instance, "address": address });
    for (path, body, status, word) in [
        (
            "/v1/nodes/x/drain",
            json!(null),
            404,
            "no node has the instance x",
        ),
        (
            "/v1/nodes/x/enable",
            json!(null),
            404,
            "no node has the instance x",
        ),
        (
            "/v1/nodes",
            record("x", "10.0.0.9:5060"),
            404,
            "(static) does not list the instance x",
        ),
        (
            "/v1/nodes",
            record("a", "10.0.0.9:5060"),
            409,
            "the same instance a",
        ),
        (
            "/v1/nodes",
            record("a", "somewhere"),
            400,
            "not a node record",
        ),
        (
            "/v1/nodes",
            record("a/b", "10.0.0.9:5060"),
            400,
            "`instance`",
        ),
        (
            "/v1/nodes",
            json!({ "instance": "a", "adress": "x" }),
            400,
            "did you mean `address`?",
        ),
        (
            "/v1/nodes",
            json!({}),
            400,
            "requires the parameter `instance`",
        ),
        ("/v1/nodes", json!([]), 400, "must be a JSON object"),
        (
            "/v1/nodes/a/drain",
            json!({ "instance": "b" }),
            400,
            "`instance` is given twice",
        ),
        (
            "/v1/nodes/a/drain?force=maybe",
            json!(null),
            400,
            "true or false",
        ),
        (
            "/v1/users",
            json!({ "domain": "example.org", "count": 1 }),
            409,
            "`database.url`",
        ),
        (
            "/v1/users",
            json!({ "domain": "example.org", "count": 100_001 }),
            400,
            "from 1 to 100000",
        ),
        ("/v1/unknown", json!(null), 404, "GET /v1/methods"),
    ] {
        let (got, answer) = api.post(path, &body).await;
        let problem = answer["error"].as_str().unwrap_or_default();
        assert!(
            got == status && problem.contains(word),
            "POST {path} {body}: {got} {answer}"
        );
    }
    assert_eq!(api.delete("/v1/nodes/x").await.0, 404);
    assert_eq!(api.get("/v1/registrations?limit=0").await.0, 400);
    let (status, answer) = api.request("POST", "/v1/nodes", Some(TOKEN), "{").await;
    assert_eq!(status, 400, "{answer}");
    let large = format!("{{\"instance\":\"{}\"}}", "x".repeat(64 << 10));
    assert_eq!(
        api.request("POST", "/v1/nodes", Some(TOKEN), &large)
            .await
            .0,
        413
    );
    assert_eq!(api.states().await, "a=active b=active");
}

#[tokio::test]
async fn somebody_always_takes_new_calls() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    assert_eq!(api.post("/v1/nodes/a/drain", &json!(null)).await.0, 200);
    let (status, answer) = api.post("/v1/nodes/b/drain", &json!(null)).await;
    assert!(
        status == 409
            && answer["error"]
                .as_str()
                .is_some_and(|it| it.contains("the last active node")),
        "{answer}"
    );
    assert_eq!(api.delete("/v1/nodes/b").await.0, 409);
    assert_eq!(api.delete("/v1/nodes/a").await.0, 200);
    let (status, answer) = api.delete("/v1/nodes/b?force").await;
    assert!(
        status == 409
            && answer["error"]
                .as_str()
                .is_some_and(|it| it.contains("no empty set")),
        "{answer}"
    );
    assert_eq!(
        api.post("/v1/nodes/b/drain", &json!({ "force": true }))
            .await
            .0,
        200
    );
    assert_eq!(api.states().await, "b=draining");
}

#[tokio::test]
async fn nodes_that_hooks_enabled_are_known_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let with_state = || {
        let mut options = options(Source::Api);
        options.state_file = Some(folder.path().join("state.json"));
        options
    };
    let controller = Controller::start(with_state()).await.expect("started");
    let api = Api(controller.address());
    assert_eq!(api.get("/health/ready").await.0, 503);
    assert_eq!(
        api.get("/v1/members").await.0,
        503,
        "an empty set is never shown"
    );
    for (instance, port) in [("a", 5060), ("b", 5061)] {
        let record = json!({ "instance": instance, "name": instance, "address": format!("10.0.0.1:{port}") });
        assert_eq!(api.post("/v1/nodes", &record).await.0, 200);
    }
    let twin = json!({ "instance": "c", "name": "a", "address": "10.0.0.1:5062" });
    assert_eq!(
        api.post("/v1/nodes", &twin).await.0,
        409,
        "two nodes with one name"
    );
    assert_eq!(api.post("/v1/nodes/b/drain", &json!(null)).await.0, 200);
    let (_, before) = api.get("/v1/members").await;
    drop(controller);
    let controller = Controller::start(with_state()).await.expect("started");
    let api = Api::of(&controller).await;
    let (_, after) = api.get("/v1/members").await;
    assert_eq!(after["nodes"], before["nodes"]);
    assert_ne!(after["epoch"], before["epoch"]);
    assert_eq!(after["generation"], 1);
}

#[tokio::test]
async fn every_method_and_every_metric_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controller.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let controller = Controller::start(options(fixed(&["a"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    let (_, methods) = api.get("/v1/methods").await;
    for method in methods.as_array().expect("a list") {
        let paths = method["paths"].as_array().cloned().unwrap_or_default();
        let words = paths
            .iter()
            .chain([&method["name"]])
            .filter_map(|it| it.as_str());
        for word in words {
            let word = word.replace("{instance}", "INSTANCE");
            assert!(
                page.contains(&format!("`{word}`")),
                "{word} is not documented"
            );
        }
    }
    let (_, metrics) = api.get("/metrics").await;
    let samples = metrics
        .as_str()
        .expect("text")
        .lines()
        .filter(|line| !line.starts_with('#'));
    for sample in samples {
        let name = sample.split(['{', ' ']).next().unwrap_or_default();
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is not documented"
        );
    }
}
