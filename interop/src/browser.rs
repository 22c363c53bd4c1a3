//! A telephone in a web page over WebSocket: `JsSIP` or SIP.js in headless Chromium, with a microphone that hums.
//!
//! The pages are in `interop/browser`. A telephone reports its events as lines. Each line is a word, sometimes followed
//! by a reason:
//!
//! | report | meaning |
//! | --- | --- |
//! | `connected`, `disconnected` | the WebSocket connection |
//! | `registered`, `registration_failed`, `unregistered` | the registration |
//! | `incoming URI` | a call comes in |
//! | `ringing` | the callee rings (reported by the caller) |
//! | `established` | the call is established |
//! | `media` | sound has arrived |
//! | `ended` | the call has ended |
//! | `failed` | the call ended before it was established |
//! | `error` | a command could not be executed |

use crate::devtools::DevTools;
use crate::phone::{Account, Moment, Phone};
use crate::process::{Child, PATIENCE, eventually, run};
use crate::server::Server;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The SIP library of a telephone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The library `JsSIP`.
    JsSip,
    /// The library SIP.js.
    SipJs,
}

impl Library {
    const fn name(self) -> &'static str {
        match self {
            Self::JsSip => "JsSIP",
            Self::SipJs => "SIP.js",
        }
    }

    const fn script(self) -> &'static str {
        match self {
            Self::JsSip => "jssip.js",
            Self::SipJs => "sipjs.js",
        }
    }
}

/// The account of a telephone, and where it registers.
#[derive(Clone, Debug)]
pub struct WebAccount {
    /// The server, such as `ws://127.0.0.1:8080` or `wss://127.0.0.1:8443`. Any certificate is accepted.
    pub server: String,
    /// The address-of-record.
    pub uri: String,
    /// The password of the user.
    pub password: String,
}

/// A running browser that shows one telephone.
#[derive(Debug)]
pub struct WebPhone {
    library: Library,
    // Ends with the browser, before its folder is removed.
    child: Child,
    page: DevTools,
    /// How many reports have been consumed.
    read: usize,
    _folder: TempDir,
}

impl WebPhone {
    /// Starts a browser with the telephone. Waits until it has registered.
    pub fn start(library: Library, account: &WebAccount) -> Self {
        let mut phone = Self::open(library);
        let account = json!({
            "server": account.server,
            "uri": account.uri,
            "password": account.password,
        });
        phone.tell(&format!("start({account})"));
        phone.wait_for("registered");
        phone
    }

    /// Like [`WebPhone::start`], with a subscriber's account.
    pub fn with_account(library: Library, server: &Server, account: &Account) -> Self {
        let scheme = account.protocol.via_token().to_ascii_lowercase();
        let address = server.address_of(account.protocol);
        let account = WebAccount {
            server: format!("{scheme}://{address}"),
            uri: server.uri(&account.user),
            password: Server::password(&account.user),
        };
        Self::start(library, &account)
    }

    /// Unregisters and closes the browser.
    pub fn quit(mut self) {
        self.tell("quit()");
        self.wait_for("unregistered");
        self.page.close_browser();
        self.child.wait();
    }

    /// Waits for the next report that begins with this word. Earlier calls have consumed earlier reports.
    fn wait_for(&mut self, word: &str) {
        let happened = eventually(PATIENCE, || {
            self.page.read();
            while let Some(line) = self.page.reports().get(self.read) {
                self.read += 1;
                if line.split(' ').next() == Some(word) {
                    return true;
                }
            }
            false
        });
        let (page, browser) = (self.page.log(), self.child.output());
        assert!(happened, "no {word}:\n{page}\n{browser}");
    }

    fn open(library: Library) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let page = build_page(library, folder.path());
        let mut command = Command::new("chromium");
        command
            .args(SWITCHES)
            .arg(format!("--user-data-dir={}", folder.path().display()));
        let child = Child::start(&mut command, &folder.path().join("output"));
        let mut address = None;
        eventually(PATIENCE, || {
            address = debugging_address(&child.output());
            address.is_some()
        });
        let Some(address) = address else {
            panic!("chromium does not start:\n{}", child.output())
        };
        let page = DevTools::open(&address, &format!("file://{}", page.display()));
        Self {
            library,
            child,
            page,
            read: 0,
            _folder: folder,
        }
    }

    fn tell(&mut self, what: &str) {
        // A rejected promise is a report too.
        let script = format!(
            "Promise.resolve(phone.{what}).then(() => undefined, (error) => report(`error ${{error}}`)), undefined"
        );
        self.page.evaluate(&script);
    }
}

impl Phone for WebPhone {
    fn name(&self) -> &'static str {
        self.library.name()
    }

    fn dial(&mut self, uri: &str) {
        self.tell(&format!("dial({})", json!(uri)));
    }

    fn accept(&mut self) {
        self.tell("accept()");
    }

    fn hang_up(&mut self) {
        self.tell("hangUp()");
    }

    fn wait_until(&mut self, moment: Moment) {
        self.wait_for(match moment {
            Moment::Called => "incoming",
            Moment::Rings => "ringing",
            Moment::Established => "established",
            Moment::Over => "ended",
        });
    }

    fn wait_for_sound(&mut self) {
        self.wait_for("media");
    }

    fn log(&self) -> String {
        self.page.log().to_owned()
    }
}

const SWITCHES: [&str; 19] = [
    "--headless",
    // Tests run as root in containers, and the only pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    // Only fatal errors, because the browser misses much that a desktop has.
    "--log-level=3",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-sync",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    // Nothing leaves this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE ::1, EXCLUDE [::1]",
    "--remote-debugging-port=0",
    "--ignore-certificate-errors",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    // Two browsers on one machine find each other by its own addresses.
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
];

/// Writes the page and its script, with the library bundled into it, to a folder.
fn build_page(library: Library, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
    let bundler = source.join("node_modules/.bin/esbuild");
    let mut command = Command::new(bundler);
    command
        .arg(source.join(library.script()))
        .args(["--bundle", "--format=iife", "--log-level=warning"])
        .arg(format!("--outfile={}", folder.join("phone.js").display()));
    let (code, output) = run(&mut command);
    assert_eq!(code, 0, "{output}");
    let page = folder.join("phone.html");
    std::fs::copy(source.join("phone.html"), &page).expect("the page");
    page
}

/// The address at which the browser can be controlled, from its output.
fn debugging_address(output: &str) -> Option<String> {
    let line = output.split_once("DevTools listening on ")?.1;
    let (address, _) = line.split_once('\n')?;
    Some(address.trim().to_owned())
}
