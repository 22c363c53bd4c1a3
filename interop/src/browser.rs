//! A telephone in a web page: `JsSIP` or SIP.js in Chromium without a screen, with a microphone that hums, over WebSocket.
//!
//! The pages are those of `interop/browser`. What happens to a telephone it reports as lines, a word and sometimes a reason:
//! `connected`, `registered`, `registration_failed`, `incoming URI`, `ringing` (at the caller), `established`, `media` (sound
//! has arrived), `ended`, `failed` (a call that was never established), `unregistered`, `disconnected`, `error` (what it was
//! told to do could not be done).

use crate::devtools::DevTools;
use crate::phone::{Account, Moment, Phone};
use crate::process::{Child, PATIENCE, eventually, run};
use crate::server::Server;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What a telephone is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `JsSIP`.
    JsSip,
    /// SIP.js.
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

/// Whose telephone it is and where it registers.
#[derive(Clone, Debug)]
pub struct WebAccount {
    /// The server, such as `ws://127.0.0.1:8080` or `wss://127.0.0.1:8443`; any certificate will do.
    pub server: String,
    /// The address-of-record.
    pub uri: String,
    /// The password of its user.
    pub password: String,
}

/// A running browser that shows one telephone.
#[derive(Debug)]
pub struct WebPhone {
    library: Library,
    // Ends with the browser, before its folder goes.
    child: Child,
    page: DevTools,
    /// How many of the reports have been waited for.
    read: usize,
    _folder: TempDir,
}

impl WebPhone {
    /// Starts a browser with the telephone, and waits until it has registered.
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

    /// The same with the account of a subscriber.
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

    /// Takes its registration back and closes the browser.
    pub fn quit(mut self) {
        self.tell("quit()");
        self.wait_for("unregistered");
        self.page.close_browser();
        self.child.wait();
    }

    /// Waits for a report after those already waited for that begins with this word.
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
        // A promise that is refused is a report too.
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
    // Tests run as root in containers; the only pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    // Only what is fatal: it misses much that a desktop has.
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

/// Puts the page and its script, with the library in it, into a folder.
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

/// Where the browser says that it can be controlled.
fn debugging_address(output: &str) -> Option<String> {
    let line = output.split_once("DevTools listening on ")?.1;
    let (address, _) = line.split_once('\n')?;
    Some(address.trim().to_owned())
}
