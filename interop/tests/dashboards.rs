//! Tests the Prometheus configuration and the Grafana dashboard of Tandem on a server with calls. Debian's Prometheus
//! scrapes the server. Every expression is evaluated; it must name existing metrics and return numbers.

use interop::{PATIENCE, Prometheus, Server, ServerOptions, eventually, lab_run, lab_users};
use serde_json::Value;
use sip_transport::Protocol;
use std::collections::BTreeSet;
use std::path::PathBuf;

const PHONES: u32 = 20;
const RINGING: &str = "200ms";

fn deployed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(name)
}

fn text(name: &str) -> String {
    let path = deployed(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Starts Prometheus with the deployed configuration, except for the server's address and the scrape interval.
fn prometheus(server: &Server) -> Prometheus {
    let mut configuration = text("prometheus/prometheus.yml");
    for (deployed, here) in [
        ("127.0.0.1:8060", server.admin_address().to_string()),
        ("scrape_interval: 5s", "scrape_interval: 1s".into()),
        ("evaluation_interval: 5s", "evaluation_interval: 1s".into()),
    ] {
        assert!(configuration.contains(deployed), "{configuration}");
        configuration = configuration.replace(deployed, &here);
    }
    Prometheus::start(&configuration, &[&deployed("prometheus/tandem.rules.yml")])
}

/// Makes calls at a rate. Each rings for a while, and all of them succeed.
fn call(server: &Server, duration: &str) {
    let phones = PHONES.to_string();
    let rate = ["call", "--rate", "40", "--duration", duration, "--quiet"];
    let arguments = [&rate[..], &["--ringing", RINGING, "--phones", &phones]].concat();
    let (_, report, output) = lab_run(server, Protocol::Udp, &arguments);
    let calls = &report["units"]["calls"];
    assert_eq!(calls["attempted"], calls["succeeded"], "{output}");
    assert!(
        calls["attempted"].as_u64().is_some_and(|calls| calls > 100),
        "{output}"
    );
}

/// Every expression of the dashboard, with its panel.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut found = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            found.push((title.clone(), expression.to_owned()));
        }
    }
    found
}

/// The expression as Grafana sends it.
fn as_asked(expression: &str) -> String {
    expression
        .replace("$instance", ".+")
        .replace("$__rate_interval", "1m")
}

/// The metrics that an expression names.
fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = expression.split(|character| !is_part(character));
    words.filter(|word| word.starts_with("tandem_")).collect()
}

/// The metrics that the server exports.
fn shown(server: &Server) -> BTreeSet<String> {
    let (status, page) = server.http("/metrics");
    assert_eq!(status, 200);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| line.split(['{', ' ']).next());
    names.map(str::to_owned).collect()
}

/// The problem of an expression: it names no metric or an unknown one, Prometheus rejects it, or it returns no number.
fn problem(prometheus: &Prometheus, shown: &BTreeSet<String>, expression: &str) -> Option<String> {
    let named = metrics_of(expression);
    if named.is_empty() {
        return Some("no metric".into());
    }
    if let Some(unknown) = named.iter().find(|name| !shown.contains(**name)) {
        return Some(format!("there is no metric {unknown}"));
    }
    match prometheus.query(&as_asked(expression)) {
        Err(error) => Some(error),
        Ok(values) if values.is_empty() => Some("no data".into()),
        Ok(_) => None,
    }
}

/// The 99th percentile of a method's durations from the server's own metrics, as Prometheus defines it.
fn p99(server: &Server, method: &str) -> f64 {
    let (_, page) = server.http("/metrics");
    let of_method = format!("\",method=\"{method}\"}} ");
    let buckets: Vec<(f64, f64)> = page
        .lines()
        .filter_map(|line| {
            let bucket = line.strip_prefix("tandem_request_duration_seconds_bucket{le=\"")?;
            let (bound, count) = bucket.split_once(&of_method)?;
            let bound = if bound == "+Inf" {
                f64::INFINITY
            } else {
                bound.parse().ok()?
            };
            Some((bound, count.parse().ok()?))
        })
        .collect();
    let rank = 0.99 * buckets.last().expect("buckets").1;
    let place = buckets
        .iter()
        .position(|(_, count)| *count >= rank)
        .expect("a bucket");
    let (from, before) = if place == 0 {
        (0.0, 0.0)
    } else {
        buckets[place - 1]
    };
    let (until, count) = buckets[place];
    from + (until - from) * (rank - before) / (count - before)
}

#[test]
fn every_panel_shows_a_server_that_is_called_and_its_p99() {
    let server = Server::start(&ServerOptions {
        users: lab_users(PHONES),
        ..ServerOptions::default()
    });
    let prometheus = prometheus(&server);
    let up = || prometheus.query("up{job=\"tandem\"}") == Ok(vec![1.0]);
    assert!(eventually(PATIENCE, up), "the server is not scraped");
    call(&server, "6s");

    let dashboard: Value = serde_json::from_str(&text("grafana/tandem.json")).expect("JSON");
    let (expressions, shown) = (expressions(&dashboard), shown(&server));
    assert!(expressions.len() > 40, "{}", expressions.len());
    let problems = || -> Vec<String> {
        let wrong = expressions.iter().filter_map(|(panel, expression)| {
            let problem = problem(&prometheus, &shown, expression)?;
            Some(format!("{panel}: {problem}: {expression}"))
        });
        wrong.collect()
    };
    // A rate exists once a counter has been scraped twice.
    eventually(PATIENCE, || problems().is_empty());
    assert_eq!(problems(), [""; 0]);
    // The check can fail.
    for wrong in [
        "sum(rate(tandem_request_total[1m]))",
        "sum(up)",
        "sum(rate(tandem_requests_total))",
        "tandem_ready > 1",
    ] {
        assert!(problem(&prometheus, &shown, wrong).is_some(), "{wrong}");
    }

    // When Prometheus has counted as many calls as the server, all calls have been scraped. Then both have the same percentile.
    let count = "sum(tandem_request_duration_seconds_count{method=\"INVITE\"})";
    let own = server.metric("tandem_request_duration_seconds_count", "\"INVITE\"");
    assert!(
        eventually(PATIENCE, || prometheus.query(count) == Ok(vec![own])),
        "{own}"
    );
    let of_all = "histogram_quantile(0.99, sum by (le) (tandem_request_duration_seconds_bucket{method=\"INVITE\"}))";
    let (theirs, ours) = (
        prometheus.query(of_all).expect("a number"),
        p99(&server, "INVITE"),
    );
    assert_eq!(theirs.len(), 1);
    assert!((theirs[0] - ours).abs() < 1e-9, "{theirs:?} {ours}");
    // The phones rang for 200 ms, but the machine may be busy.
    assert!((0.1..5.0).contains(&ours), "{ours}");

    // Every alert can be evaluated, and a working server raises none.
    let mut server = server;
    let evaluated = || prometheus.rules().iter().all(|rule| rule["health"] == "ok");
    assert!(eventually(PATIENCE, evaluated), "{:?}", prometheus.rules());
    // Some metrics are exported only if something is configured, such as a gateway.
    let reference = include_str!("../../docs/metrics.md");
    let is_known =
        |name: &&str| shown.contains(*name) || reference.contains(&format!("| `{name}`"));
    for rule in prometheus.rules() {
        let expression = rule["query"].as_str().expect("an expression");
        let named = metrics_of(expression);
        assert!(named.iter().all(is_known), "{expression}");
        assert_eq!(rule["state"], "inactive", "{rule}");
    }
    server.kill();
    assert!(eventually(PATIENCE, || prometheus.alarm("TandemDown") != "inactive"));
}

#[test]
fn the_dashboard_is_one_that_grafana_can_draw() {
    let dashboard: Value = serde_json::from_str(&text("grafana/tandem.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels {
        let number = |value: &Value| value.as_u64().expect("a number");
        assert!(ids.insert(number(&panel["id"])), "an id twice: {panel}");
        let place = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| number(&place[key]));
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "one panel over another: {panel}");
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        }
    }
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    let names: Vec<&str> = variables
        .iter()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    assert_eq!(names, ["datasource", "instance"]);
}
