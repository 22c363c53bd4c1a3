//! Prometheus from Debian, with its own port and folder.

use crate::process::{Child, PATIENCE, eventually, free_port};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A running Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    folder: TempDir,
    port: u16,
    agent: ureq::Agent,
}

impl Prometheus {
    /// Starts Prometheus with a configuration and the files that the configuration names. Waits until it is ready.
    pub fn start(configuration: &str, files: &[&Path]) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let port = free_port();
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, configuration).expect("configuration");
        for path in files {
            let name = path.file_name().expect("a file");
            std::fs::copy(path, folder.path().join(name))
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let child = Child::start(&mut command, &folder.path().join("output"));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let prometheus = Self {
            child,
            folder,
            port,
            agent: agent.into(),
        };
        let ready = eventually(PATIENCE, || {
            let answer = prometheus.agent.get(prometheus.url("/-/ready")).call();
            answer.is_ok_and(|answer| answer.status() == 200)
        });
        assert!(
            ready,
            "Prometheus does not start in {}:\n{}",
            prometheus.folder.path().display(),
            prometheus.child.output()
        );
        prometheus
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends a query to its HTTP API and returns the data.
    ///
    /// # Errors
    /// The error message of Prometheus.
    pub fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if answer["status"] == "success" {
            Ok(answer["data"].clone())
        } else {
            Err(answer["error"].to_string())
        }
    }

    /// The present values of an expression, without those that are not a number.
    ///
    /// # Errors
    /// The error message of Prometheus.
    pub fn query(&self, expression: &str) -> Result<Vec<f64>, String> {
        let data = self.ask("/api/v1/query", &[("query", expression)])?;
        let series = data["result"].as_array().cloned().unwrap_or_default();
        let values = series.iter().filter_map(|series| {
            let value = series["value"][1].as_str()?.parse::<f64>().ok()?;
            value.is_finite().then_some(value)
        });
        Ok(values.collect())
    }

    /// The state of an alert: `inactive`, `pending` or `firing`.
    pub fn alarm(&self, name: &str) -> String {
        self.rules()
            .iter()
            .find(|rule| rule["name"] == name)
            .and_then(|rule| rule["state"].as_str().map(str::to_owned))
            .unwrap_or_else(|| panic!("there is no alarm {name}"))
    }

    /// All its rules.
    pub fn rules(&self) -> Vec<Value> {
        let data = self
            .ask("/api/v1/rules", &[])
            .unwrap_or_else(|error| panic!("{error}"));
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        groups
            .iter()
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
            .collect()
    }
}
