//! A web page in Chromium, driven by Playwright (`interop/browser/page.mjs`).

use crate::process::{Child, PATIENCE, eventually};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// How long a command may take. Playwright's own timeout is shorter.
const ORDER: Duration = Duration::from_secs(60);

/// A browser with one page.
#[derive(Debug)]
pub struct Page {
    child: Child,
    /// How many answers have been read.
    read: usize,
    _folder: TempDir,
}

/// The window and color scheme of a screenshot.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The width of the window.
    pub width: u32,
    /// The height of the window. The screenshot is as high as the page.
    pub height: u32,
    /// Whether the user prefers dark pages.
    pub dark: bool,
}

impl Page {
    /// Starts the browser and opens a URL.
    pub fn open(url: &str) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/page.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg("/usr/bin/chromium");
        let mut page = Self {
            child: Child::start(&mut command, &folder.path().join("output")),
            read: 0,
            _folder: folder,
        };
        page.answer("the browser");
        page.order(&json!({ "do": "open", "url": url }));
        page
    }

    /// Presses a button by its name.
    pub fn click(&mut self, button: &str) {
        self.order(&json!({ "do": "click", "button": button }));
    }

    /// Chooses an option of a list, by the label of the list.
    pub fn choose(&mut self, field: &str, option: &str) {
        self.order(&json!({ "do": "choose", "field": field, "option": option }));
    }

    /// Fills a field, by its label.
    pub fn fill(&mut self, field: &str, value: &str) {
        self.order(&json!({ "do": "fill", "field": field, "value": value }));
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        self.order(&json!({ "do": "press", "key": key }));
    }

    /// Uploads a file through the page's file field.
    pub fn upload(&mut self, path: &Path) {
        self.order(&json!({ "do": "upload", "path": path }));
    }

    /// The text of a CSS selector. Empty if nothing matches.
    pub fn text(&mut self, of: &str) -> String {
        let text = self.order(&json!({ "do": "text", "of": of }));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of a selector is as wanted, and returns it.
    pub fn wait_for(&mut self, of: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let came = eventually(PATIENCE, || {
            text = self.text(of);
            is_wanted(&text)
        });
        assert!(came, "{of} says `{text}`; the page:\n{}", self.text("body"));
        text
    }

    /// Takes a screenshot of the whole page.
    pub fn screenshot(&mut self, path: &Path, look: Look) {
        let scheme = if look.dark { "dark" } else { "light" };
        self.order(&json!({
            "do": "screenshot", "path": path, "width": look.width, "height": look.height, "scheme": scheme
        }));
    }

    /// Errors of the page's scripts, and what the browser blocked.
    pub fn complaints(&mut self) -> Vec<Value> {
        let complaints = self.order(&json!({ "do": "complaints" }));
        complaints.as_array().cloned().unwrap_or_default()
    }

    fn order(&mut self, order: &Value) -> Value {
        self.child.say(&order.to_string());
        self.answer(&order.to_string())
    }

    fn answer(&mut self, to: &str) -> Value {
        let mut line = None;
        eventually(ORDER, || {
            let output = self.child.output();
            let complete = output.rsplit_once('\n').map_or("", |(lines, _)| lines);
            let mut lines = complete.lines().filter(|line| line.starts_with('{'));
            line = lines.nth(self.read).map(str::to_owned);
            line.is_some() || self.child.ended().is_some()
        });
        let line = line.unwrap_or_else(|| panic!("no answer to {to}:\n{}", self.child.output()));
        self.read += 1;
        let mut answer: Value = serde_json::from_str(&line).expect("JSON");
        assert!(answer.get("error").is_none(), "{to}: {}", answer["error"]);
        answer["value"].take()
    }
}
