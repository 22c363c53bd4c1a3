//! Runs our scenarios in sipp. Its own state machine, statistics and trace decide whether a test passes.
//!
//! A scenario is a file in `interop/sipp`, in sipp's language with one addition: `<include part="NAME"/>` includes
//! `interop/sipp/parts/NAME.xml`. So a scenario contains only what is special about it.

use crate::messages::{Messages, header};
use crate::process::{Child, PATIENCE, eventually, free_port, wait_until};
use crate::server::Server;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// sipp's name for UDP with one socket for all calls.
const UDP: &str = "u1";

/// The Contact of the scenarios.
const CONTACT: &str = "Contact: <sip:[local_ip]:[local_port]>";

/// A scenario and its options.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    caller: String,
    callee: String,
    password: Option<String>,
    calls: u32,
    traced: bool,
    sdp: &'static str,
    transport: &'static str,
    remote: Option<SocketAddr>,
    arguments: Vec<String>,
}

impl Scenario {
    /// The scenario `interop/sipp/NAME.xml`, for one call from alice to bob.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            caller: "alice".to_owned(),
            callee: "bob".to_owned(),
            password: None,
            calls: 1,
            traced: true,
            sdp: "sdp",
            transport: UDP,
            remote: None,
            arguments: Vec::new(),
        }
    }

    /// Sets the caller (`[caller]`), a subscriber. Its password answers challenges.
    #[must_use]
    pub fn from(mut self, user: &str) -> Self {
        user.clone_into(&mut self.caller);
        self
    }

    /// Sets the callee (`[callee]`), a subscriber or any URI.
    #[must_use]
    pub fn to(mut self, user: &str) -> Self {
        user.clone_into(&mut self.callee);
        self
    }

    /// Sets a password other than the right one.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Sets the number of calls to make or answer.
    #[must_use]
    pub fn calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// Sets the value of a keyword in brackets.
    #[must_use]
    pub fn key(self, word: &str, value: &str) -> Self {
        self.with(&["-key", word, value])
    }

    /// Adds arguments for sipp.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Uses media that suit a browser: ICE and DTLS-SRTP. sipp sends no media. Browsers tolerate the silence for at least
    /// half a minute.
    #[must_use]
    pub fn for_browsers(mut self) -> Self {
        self.sdp = "sdp_for_browsers";
        self
    }

    /// Uses TCP, with one connection for all calls.
    #[must_use]
    pub fn over_tcp(mut self) -> Self {
        self.transport = "t1";
        self
    }

    /// Uses TCP, with one connection per call, to an address in front of the server.
    #[must_use]
    pub fn connecting_for_each_call(mut self, to: SocketAddr) -> Self {
        self.transport = "tn";
        self.arguments
            .extend(["-max_socket".to_owned(), "1000".to_owned()]);
        self.remote = Some(to);
        self
    }

    /// Sends to another server of the same domain.
    #[must_use]
    pub fn at(self, other: SocketAddr) -> Self {
        Self {
            remote: Some(other),
            ..self
        }
    }

    /// Writes no trace, for many calls.
    #[must_use]
    pub fn untraced(mut self) -> Self {
        self.traced = false;
        self
    }

    /// The scenario with its parts included.
    fn expanded(&self) -> String {
        let mut text = String::new();
        self.expand(&read(&self.name), &mut text);
        if self.transport == UDP {
            return text;
        }
        // Calls to it must use TCP too.
        text.replace(CONTACT, &CONTACT.replace('>', ";transport=tcp>"))
    }

    fn expand(&self, source: &str, text: &mut String) {
        for line in source.lines() {
            let part = line
                .trim()
                .strip_prefix("<include part=\"")
                .and_then(|rest| rest.strip_suffix("\"/>"));
            match part {
                Some("sdp") => text.push_str(&read(&format!("parts/{}", self.sdp))),
                Some(part) => self.expand(&read(&format!("parts/{part}")), text),
                None => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }

    /// Starts sipp with the server as its peer. Waits until it listens.
    pub fn start(&self, server: &Server) -> Sipp {
        let folder = TempDir::new().expect("temporary folder");
        let file = folder.path().join("scenario.xml");
        std::fs::write(&file, self.expanded()).expect("scenario");
        let address = SocketAddr::new(server.host().clients(), free_port());
        let port = address.port().to_string();
        let password = self.password.clone();
        let mut command = Command::new("sipp");
        command.current_dir(folder.path());
        command.arg(self.remote.unwrap_or(server.address()).to_string());
        command.args(["-sf", "scenario.xml", "-nostdin", "-t", self.transport]);
        command.args(["-i", &address.ip().to_string(), "-p", &port]);
        command.args(["-m", &self.calls.to_string()]);
        command.args(["-trace_err", "-error_file", "errors.log"]);
        command.args(["-trace_stat", "-stf", "statistics.csv", "-fd", "1"]);
        if self.traced {
            command.args(["-trace_msg", "-message_file", "messages.log"]);
        }
        // Without this it writes an IPv6 address without brackets into its credentials.
        command.args(["-auth_uri", server.domain()]);
        command.args(["-au", &self.caller, "-ap"]);
        command.arg(password.unwrap_or_else(|| Server::password(&self.caller)));
        command.args(["-key", "domain", server.domain()]);
        for (word, user) in [("caller", &self.caller), ("callee", &self.callee)] {
            command.args(["-key", word, &server.uri(user)]);
        }
        command.args(&self.arguments);
        let child = Child::start(&mut command, &folder.path().join("output"));
        let mut sipp = Sipp {
            child,
            folder,
            address,
        };
        sipp.wait_until_it_listens(self.transport);
        sipp
    }

    /// Starts sipp and waits until every call has followed the scenario.
    pub fn run(&self, server: &Server) -> Outcome {
        self.start(server).finish()
    }
}

/// A running sipp.
#[derive(Debug)]
pub struct Sipp {
    child: Child,
    folder: TempDir,
    /// The address it listens at.
    pub address: SocketAddr,
}

impl Sipp {
    /// Waits until all calls are over. Panics with the messages if a call did not follow the scenario.
    pub fn finish(self) -> Outcome {
        self.finish_within(PATIENCE)
    }

    /// Like [`Sipp::finish`], for calls that take longer.
    pub fn finish_within(mut self, at_most: Duration) -> Outcome {
        let status = self.child.wait_at_most(at_most);
        let went_well = status.is_some_and(|status| status.success());
        assert!(went_well, "sipp: {status:?}\n{}", self.complaint());
        self.outcome()
    }

    /// Waits until all calls are over. Returns whether they followed the scenario.
    pub fn went_well(mut self) -> bool {
        self.child.wait().success()
    }

    /// Ends a sipp that may still wait for calls.
    pub fn stop(mut self) -> Outcome {
        self.child.signal("USR1");
        self.child.wait();
        self.outcome()
    }

    /// The messages so far.
    pub fn messages(&self) -> Messages {
        Messages::read(&self.file("messages.log"))
    }

    /// Waits until a message has been received whose first line begins with this text.
    pub fn wait_for(&self, beginning: &str) {
        let came = eventually(PATIENCE, || !self.messages().received(beginning).is_empty());
        assert!(came, "{beginning} does not come\n{}", self.complaint());
    }

    /// Lets a scenario that waits for INFO continue its call. The INFO bypasses the server.
    pub fn cue(&self) {
        let messages = self.messages();
        let last = messages.last().expect("a call has begun");
        let call_id = header(last, "Call-ID")[0];
        // Not a retransmission of the cue before.
        let number = messages.received("INFO").len() + 1;
        let cue = format!(
            "INFO sip:cue SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKcue{number}\r\nFrom: <sip:cue@interop>\r\n\
             To: <sip:cue@interop>\r\nCall-ID: {call_id}\r\nCSeq: {number} INFO\r\nContent-Length: 0\r\n\r\n"
        );
        let socket = UdpSocket::bind((self.address.ip(), 0)).expect("a socket");
        socket.send_to(cue.as_bytes(), self.address).expect("sent");
    }

    fn wait_until_it_listens(&mut self, transport: &str) {
        let protocol = if transport == UDP { "udp" } else { "tcp" };
        let table = match self.address.ip() {
            IpAddr::V4(_) => format!("/proc/net/{protocol}"),
            IpAddr::V6(_) => format!("/proc/net/{protocol}6"),
        };
        let port = format!(":{:04X} ", self.address.port());
        wait_until("sipp listens", || {
            let bound = std::fs::read_to_string(&table).is_ok_and(|text| text.contains(&port));
            bound || self.child.ended().is_some()
        });
        let ended = self.child.ended();
        let broken = ended.is_some_and(|status| !status.success());
        assert!(
            !broken,
            "sipp does not run\n{}\n{}",
            self.complaint(),
            self.child.output()
        );
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            statistics: self.file("statistics.csv"),
            messages: self.messages(),
        }
    }

    fn file(&self, name: &str) -> String {
        let bytes = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The messages and errors that help to find the cause of a failure.
    fn complaint(&self) -> String {
        let messages = self.file("messages.log");
        let from = messages.len().saturating_sub(6000);
        let trace = messages.get(from..).unwrap_or(&messages);
        let statistics = self.file("statistics.csv");
        let columns = ["TotalCallCreated", "CurrentCall", "FailedCall(C)"];
        let counts = columns.map(|name| (name, find_count(&statistics, name)));
        format!("{counts:?}\n{}\n{trace}", self.file("errors.log"))
    }
}

/// The result of a sipp that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    statistics: String,
    /// The messages it sent and received.
    pub messages: Messages,
}

impl Outcome {
    /// A count, by the name of its column in sipp's statistics.
    pub fn count(&self, name: &str) -> u64 {
        find_count(&self.statistics, name)
            .unwrap_or_else(|| panic!("sipp counts no {name}:\n{}", self.statistics))
    }
}

/// The last value of a column of sipp's statistics.
fn find_count(statistics: &str, name: &str) -> Option<u64> {
    let mut lines = statistics.lines();
    let names = lines.next()?.split(';');
    let values = lines.last()?.split(';');
    let (_, value) = names.zip(values).find(|(column, _)| *column == name)?;
    value.parse().ok()
}

/// Reads a file in `interop/sipp`.
fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sipp");
    let path = folder.join(name).with_extension("xml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
