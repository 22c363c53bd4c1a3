//! `tandem ctl trace`: the messages of one user or one call, drawn as a ladder, as JSON, and into a capture file.

mod ladder;
mod stream;

use super::Arguments;
use super::access::Access;
use super::request::{ORDER_TIMEOUT, printable_json};
use super::table::printable;
use crate::trace::{CapturedMessage, Event};
use anyhow::Context as _;
use ladder::Ladder;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;
use stream::Next;
use tandem_analyzer::capture::PcapWriter;

/// What to trace, and for how long.
#[derive(Debug, clap::Args)]
pub struct TraceArguments {
    /// User whose calls and registrations to show: USER@DOMAIN, USER in any domain, or a sip or tel URI. A message counts if it names
    /// the user in the Request-URI, From, To or Contact, and so do all later messages with its Call-ID.
    #[arg(
        value_name = "USER",
        required_unless_present = "call_id",
        conflicts_with = "call_id"
    )]
    user: Option<String>,
    /// Show the messages with this Call-ID.
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// Duration of the trace, from 1s to 1h; Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Also write the messages to this capture file, each as a UDP packet, for Wireshark and sngrep.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl TraceArguments {
    /// Traces until the time is over, or until the reader of the output closes the pipe.
    ///
    /// # Errors
    /// The file cannot be written, the server refuses, or the connection breaks.
    pub(super) fn run(&self, access: &Access, options: &Arguments) -> anyhow::Result<()> {
        let request = json!({
            "user": self.user,
            "call_id": self.call_id,
            "seconds": self.duration.as_secs(),
        });
        let mut output = Output {
            ladder: (!options.json).then(Ladder::default),
            capture: self.capture()?,
        };
        let timeout = options.timeout.unwrap_or(ORDER_TIMEOUT);
        stream::read(access, &request, timeout, |line| output.line(line))
    }

    fn capture(&self) -> anyhow::Result<Option<Capture>> {
        let Some(path) = &self.pcap else {
            return Ok(None);
        };
        let file = File::create(path).and_then(|file| PcapWriter::new(BufWriter::new(file)));
        let writer = file.with_context(|| format!("cannot write {}", path.display()))?;
        let path = path.clone();
        Ok(Some(Capture { path, writer }))
    }
}

/// Where the messages go.
struct Output {
    /// `None`: lines of JSON instead.
    ladder: Option<Ladder>,
    capture: Option<Capture>,
}

/// The capture file.
struct Capture {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
}

impl Capture {
    /// Writes a message at once: Ctrl-C may end the program at any time.
    fn write(&mut self, message: &CapturedMessage) -> anyhow::Result<()> {
        let (from, to) = if message.is_received() {
            (message.remote, message.local)
        } else {
            (message.local, message.remote)
        };
        let writer = &mut self.writer;
        let written = writer.message(message.micros(), from, to, &message.bytes());
        let written = written.and_then(|_| writer.flush());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Output {
    /// Shows one line of the stream.
    fn line(&mut self, line: &[u8]) -> anyhow::Result<Next> {
        let event: Event = serde_json::from_slice(line).context(
            "the server sends what this program does not know, so it is probably another version",
        )?;
        if let (Some(capture), Event::Message(message)) = (&mut self.capture, &event) {
            capture.write(message)?;
        }
        let text = match (&mut self.ladder, &event) {
            (None, _) => printable_json(&String::from_utf8_lossy(line)) + "\n",
            (Some(ladder), Event::Message(message)) => ladder.rows(message),
            (Some(_), Event::Started(started)) => {
                let call = started.call_id.as_ref().map(|id| format!("Call-ID {id}"));
                let subject = call.or(started.user.clone()).unwrap_or_default();
                let (subject, seconds) = (printable(&subject), started.seconds);
                format!("tracing {subject} for {seconds} s; Ctrl-C ends it earlier\n")
            }
            (Some(_), Event::Ended(ended)) => {
                let reason = printable(&ended.reason);
                let (messages, dropped) = (ended.messages, ended.dropped);
                format!("\nended: {reason}; messages: {messages}, dropped: {dropped}\n")
            }
        };
        let mut output = io::stdout().lock();
        let shown = output.write_all(text.as_bytes());
        match shown.and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Next::Stop),
            shown => shown.context("cannot print the messages")?,
        }
        Ok(match event {
            Event::Ended(_) => Next::Stop,
            _ => Next::Continue,
        })
    }
}
