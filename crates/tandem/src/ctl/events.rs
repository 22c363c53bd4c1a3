//! `tandem ctl events`: follows the events of calls.
use super::access::Access;
use super::call;
use super::table::printable;
use crate::output::complain;
use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::Uri;
use hyper::body::Incoming;
use serde_json::Value;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Time for the server to answer, unless the command line says otherwise.
const USUAL_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest line of a stream, in bytes. Events are shorter.
const LONGEST_LINE: usize = 1 << 20;

/// Which events to follow.
#[derive(Debug, clap::Args)]
pub struct Follow {
    /// Show only these types of events: started, ringing, answered, ended.
    #[arg(long, value_name = "TYPE,…")]
    types: Option<String>,
    /// Show only calls with this user as a party.
    #[arg(long)]
    user: Option<String>,
    /// Show only calls with this domain as that of a party; with --user, of the same party.
    #[arg(long)]
    domain: Option<String>,
    /// Show only the calls with this Call-ID.
    #[arg(long, value_name = "CALL-ID")]
    call_id: Option<String>,
}

impl Follow {
    /// The path and the query of the request.
    fn target(&self) -> String {
        let mut target = "/events".to_owned();
        let filters = [
            ("types", &self.types),
            ("user", &self.user),
            ("domain", &self.domain),
            ("call_id", &self.call_id),
        ];
        let given = filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (number, (name, value)) in given.enumerate() {
            target.push(if number == 0 { '?' } else { '&' });
            target.push_str(name);
            target.push('=');
            target.push_str(&escaped(value));
        }
        target
    }
}

/// A value of a query, percent-encoded.
fn escaped(value: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    value.bytes().map(escape).collect()
}

/// Prints events until the reader closes the pipe, or the server ends the stream.
pub(super) fn follow(
    wanted: &Follow,
    access: &Access,
    timeout: Option<Duration>,
    as_json: bool,
) -> ExitCode {
    match try_follow(wanted, access, timeout.unwrap_or(USUAL_TIMEOUT), as_json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => complain(problem),
    }
}

fn try_follow(
    wanted: &Follow,
    access: &Access,
    timeout: Duration,
    as_json: bool,
) -> anyhow::Result<()> {
    let target = wanted.target();
    target.parse::<Uri>().context("the filters are too long")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let followed = runtime.block_on(async {
        let body =
            call::open_stream(access, (Method::GET, &target), String::new(), timeout).await?;
        print(body, as_json).await
    });
    // A name that is still being resolved must not delay the error.
    runtime.shutdown_background();
    followed
}

async fn print(mut body: Incoming, as_json: bool) -> anyhow::Result<()> {
    let mut lines = Lines::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.context("the connection to the server broke")?;
        let Some(bytes) = frame.data_ref() else {
            continue;
        };
        for data in lines.add(bytes)? {
            let event: Value = serde_json::from_str(&data).context("an event is not JSON")?;
            if event["event"] == "end" {
                bail!("the server ended the stream: {}", reason(&event));
            }
            // The server escapes what a terminal obeys, but the address may be that of another program.
            let line = if as_json {
                printable(&data)
            } else {
                shown(&event)
            };
            match writeln!(io::stdout(), "{line}") {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written.context("cannot print the event")?,
            }
        }
    }
    bail!("the server closed the connection")
}

fn reason(event: &Value) -> &'static str {
    match event["reason"].as_str() {
        Some("slow") => {
            "events were not read fast enough; repeat the command, or narrow the filter"
        }
        Some("stopping") => "it stops",
        _ => "it gives no known reason",
    }
}

/// The data of events in a stream of bytes.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// The data lines that these bytes complete.
    fn add(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<String>> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else {
            anyhow::ensure!(
                self.0.len() <= LONGEST_LINE,
                "a line of the server is too long"
            );
            return Ok(Vec::new());
        };
        let rest = self.0.split_off(end + 1);
        let complete = std::mem::replace(&mut self.0, rest);
        let complete = String::from_utf8_lossy(&complete);
        let data = complete
            .lines()
            .filter_map(|line| line.strip_prefix("data:"));
        Ok(data.map(|data| data.trim_start().to_owned()).collect())
    }
}

/// An event as a line for people: time, event, parties, status or reason, Call-ID.
fn shown(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let kind = text("event");
    if kind == "gap" {
        return format!("events are missing here: {}", printable(text("reason")));
    }
    let at = match kind {
        "started" | "ringing" | "answered" | "ended" => text(kind),
        _ => "",
    };
    // 2026-11-22T20:00:04.000Z
    let clock = at.get(11..23).unwrap_or(at);
    let outcome = match (kind, event["status"].as_u64(), event["talk_ms"].as_u64()) {
        ("ended", _, Some(talked)) if talked > 0 => {
            format!(
                "{}.{:03}s, {}",
                talked / 1_000,
                talked % 1_000,
                text("ended_by")
            )
        }
        ("ended", Some(status), _) => format!("{status}, {}", text("ended_by")),
        ("ended", None, _) => text("ended_by").to_owned(),
        _ => String::new(),
    };
    let line = format!(
        "{clock:<12}  {kind:<8}  {} -> {}  {outcome:<18}  {}",
        text("from"),
        text("request_uri"),
        text("call_id")
    );
    printable(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_are_escaped() {
        let wanted = Follow {
            types: Some("started,ended".to_owned()),
            user: None,
            domain: None,
            call_id: Some("a b&types=ü@192.0.2.7".to_owned()),
        };
        assert_eq!(
            wanted.target(),
            "/events?types=started%2Cended&call_id=a%20b%26types%3D%C3%BC%40192.0.2.7"
        );
    }

    #[test]
    fn data_is_found_however_the_bytes_are_cut() {
        let stream = "retry: 2000\nid: a-0\n\n: heartbeat\nid: a-0\n\nid: a-1\nevent: ended\ndata: {\"from\":\"ü\"}\n\n";
        for cut in 0..stream.len() {
            let (first, second) = stream.as_bytes().split_at(cut);
            let mut lines = Lines::default();
            let mut data = lines.add(first).expect("short");
            data.extend(lines.add(second).expect("short"));
            assert_eq!(data, ["{\"from\":\"ü\"}"], "{cut}");
        }
        let long = vec![b'x'; LONGEST_LINE + 1];
        assert!(Lines::default().add(&long).is_err());
    }

    #[test]
    fn an_event_is_one_line_that_cannot_control_the_terminal() {
        let event = json!({
            "event": "ended", "ended": "2026-11-22T20:01:04.007Z", "from": "sip:alice\u{1b}[2J@example.org",
            "request_uri": "sip:bob@example.org", "status": 200, "talk_ms": 60_007, "ended_by": "callee", "call_id": "c\n1",
        });
        assert_eq!(
            shown(&event),
            "20:01:04.007  ended     sip:alice\\u{1b}[2J@example.org -> sip:bob@example.org  60.007s, callee     c\\n1"
        );
        let gap = json!({ "event": "gap", "reason": "too_old" });
        assert_eq!(shown(&gap), "events are missing here: too_old");
        let odd = json!({ "event": 5 });
        assert!(!shown(&odd).contains('\n'));
    }
}
