//! Remote control of a browser (Chrome `DevTools` Protocol): one page, scripts to run in it, and its reports.

use crate::process::{PATIENCE, eventually, wait_until};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;
use std::net::TcpStream;
use std::time::Duration;
use tungstenite::{Message, WebSocket};

/// A controlled page.
#[derive(Debug)]
pub(crate) struct DevTools {
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    last_id: u64,
    results: Vec<Value>,
    reports: Vec<String>,
    log: String,
}

impl DevTools {
    /// Opens a page in the browser that is controlled at `address`. The page reports by calling `report("…")`.
    pub(crate) fn open(address: &str, page: &str) -> Self {
        let host = address.strip_prefix("ws://").expect("a ws address");
        let (host, _) = host.split_once('/').expect("a path");
        let stream = TcpStream::connect(host).expect("the browser's remote control");
        let (socket, _) = tungstenite::client(address, stream).expect("a WebSocket");
        let short = Some(Duration::from_millis(20));
        socket.get_ref().set_read_timeout(short).expect("a timeout");
        let mut devtools = Self {
            socket,
            session: None,
            last_id: 0,
            results: Vec::new(),
            reports: Vec::new(),
            log: String::new(),
        };
        let target = devtools.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = devtools.call("Target.attachToTarget", &attach);
        devtools.session = attached["sessionId"].as_str().map(str::to_owned);
        devtools.call("Runtime.enable", &json!({}));
        devtools.call("Runtime.addBinding", &json!({ "name": "report" }));
        devtools.call("Page.navigate", &json!({ "url": page }));
        wait_until("the page is there", || {
            devtools.evaluate("typeof phone") == "object"
        });
        devtools
    }

    /// Runs a script in the page and returns its value.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let result = self.call("Runtime.evaluate", &json!({ "expression": script }));
        let exception = result.get("exceptionDetails");
        assert!(exception.is_none(), "{script}: {result}\n{}", self.log);
        result["result"]["value"].clone()
    }

    /// The reports of the page that [`DevTools::read`] has read so far.
    pub(crate) fn reports(&self) -> &[String] {
        &self.reports
    }

    /// Reports, console messages and errors, in order.
    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    /// Closes the browser with all its pages.
    pub(crate) fn close_browser(&mut self) {
        self.session = None;
        self.send("Browser.close", &json!({}));
    }

    /// Reads one message, or waits a moment for one.
    pub(crate) fn read(&mut self) {
        match self.socket.read() {
            Ok(Message::Text(text)) => {
                let message = serde_json::from_str(&text).expect("JSON");
                self.take(message);
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(error))
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => panic!("the browser's remote control: {error}\n{}", self.log),
        }
    }

    /// Calls a method and waits for its result.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        let mut result = None;
        eventually(PATIENCE, || {
            self.read();
            let place = self
                .results
                .iter()
                .position(|result| result["id"] == self.last_id);
            result = place.map(|place| self.results.swap_remove(place));
            result.is_some()
        });
        let mut result = result.unwrap_or_else(|| panic!("no answer to {method}\n{}", self.log));
        assert!(result.get("error").is_none(), "{method}: {result}");
        result["result"].take()
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(message.to_string()))
            .unwrap_or_else(|error| panic!("{method}: {error}\n{}", self.log));
    }

    fn take(&mut self, message: Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            None => self.results.push(message),
            Some("Runtime.bindingCalled") => {
                let line = params["payload"].as_str().unwrap_or_default().to_owned();
                let _ = writeln!(self.log, "REPORT {line}");
                self.reports.push(line);
            }
            Some("Runtime.consoleAPICalled") => {
                let arguments = params["args"].as_array().into_iter().flatten();
                let texts = arguments.filter_map(|argument| argument["value"].as_str());
                // The colors of a message are arguments too.
                for text in texts.filter(|text| !text.starts_with("color: ")) {
                    let _ = writeln!(self.log, "{}", text.replace("%c", ""));
                }
            }
            Some("Runtime.exceptionThrown") => {
                let _ = writeln!(self.log, "ERROR {}", params["exceptionDetails"]);
            }
            Some(_) => {}
        }
    }
}
