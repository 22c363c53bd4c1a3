//! Draws messages as a ladder: a column for the server and for each peer, and an arrow for each message.
//!
//! Whatever a peer sent is escaped before it is drawn, because a terminal obeys control characters.
use crate::ctl::table::printable;
use crate::trace::CapturedMessage;
use sip_message::{HeaderName, Message};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Columns of the times, at the left.
const MARGIN: usize = 20;
/// Columns from one lifeline to the next, at least.
const PITCH: usize = 30;
/// Participants that are drawn. A new one replaces the one that was silent for longest.
const MOST: usize = 6;
/// Longest text that a peer controls: Call-ID and `CSeq`.
const LONGEST_TEXT: usize = 100;

/// The server, or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Participant {
    Server,
    Peer(SocketAddr),
}

impl Participant {
    fn name(self) -> String {
        match self {
            Self::Server => "Tandem".to_owned(),
            Self::Peer(address) => address.to_string(),
        }
    }
}

/// Draws one message after the other.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    /// From left to right, with the number of the last message of each.
    participants: Vec<(Participant, u64)>,
    messages: u64,
    /// Times of the first message and of the last one, in microseconds.
    first: Option<u64>,
    last: u64,
    /// The Call-ID of the last message.
    call_id: String,
}

impl Ladder {
    /// The lines for one message: a heading if there is a new participant or another call, and the arrow.
    pub(super) fn rows(&mut self, message: &CapturedMessage) -> String {
        self.messages += 1;
        let (server, peer) = (Participant::Server, Participant::Peer(message.remote));
        let (from, to) = if message.is_received() {
            (peer, server)
        } else {
            (server, peer)
        };
        let is_new = self.enter(from) | self.enter(to);
        let mut rows = String::new();
        let is_other_call = self.call_id != message.call_id;
        if is_new || is_other_call {
            rows.push('\n');
        }
        if is_other_call {
            self.call_id.clone_from(&message.call_id);
            let _ = writeln!(rows, "Call-ID {}", text(&self.call_id));
        }
        if is_new || is_other_call {
            rows += &self.heading();
        }
        let times = self.times(message.micros());
        let what = What::of(&message.bytes());
        let arrow = self.arrow(from, to, &what.label);
        let (cseq, transport) = (what.cseq, printable(&message.transport));
        let _ = writeln!(rows, "{times:<MARGIN$}{arrow}  {cseq}  {transport}");
        rows
    }

    /// Gives a participant a column. Returns whether the columns changed.
    fn enter(&mut self, participant: Participant) -> bool {
        let number = self.messages;
        let mut known = self.participants.iter_mut();
        if let Some((_, last)) = known.find(|(known, _)| *known == participant) {
            *last = number;
            return false;
        }
        if self.participants.len() >= MOST {
            let oldest = self.participants.iter().enumerate();
            let oldest = oldest.min_by_key(|(_, (_, last))| *last);
            if let Some((place, _)) = oldest {
                self.participants.remove(place);
            }
        }
        self.participants.push((participant, number));
        true
    }

    /// The time since the first message, and since the last one, in seconds.
    fn times(&mut self, now: u64) -> String {
        let first = *self.first.get_or_insert(now);
        let since = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let since = if self.messages == 1 { 0 } else { since };
        let now = now.saturating_sub(first);
        format!("{:>8} {:>9}", seconds(now), format!("+{}", seconds(since)))
    }

    fn pitch(&self) -> usize {
        let names = self.participants.iter();
        let longest = names.map(|(participant, _)| participant.name().len()).max();
        PITCH.max(longest.unwrap_or_default() + 2)
    }

    /// The names of the participants, and the beginning of their lifelines.
    fn heading(&self) -> String {
        let pitch = self.pitch();
        let mut names = " ".repeat(MARGIN);
        for (participant, _) in &self.participants {
            let _ = write!(names, "{:^pitch$}", participant.name());
        }
        let lifelines: String = self.lifelines().into_iter().collect();
        format!(
            "{}\n{:MARGIN$}{}\n",
            names.trim_end(),
            "",
            lifelines.trim_end()
        )
    }

    fn lifelines(&self) -> Vec<char> {
        let pitch = self.pitch();
        let mut row = vec![' '; pitch * self.participants.len()];
        for cell in row.iter_mut().skip(pitch / 2).step_by(pitch) {
            *cell = '│';
        }
        row
    }

    /// The lifelines with an arrow between two of them, and its label in the middle.
    fn arrow(&self, from: Participant, to: Participant, label: &str) -> String {
        let pitch = self.pitch();
        let lifeline = |participant| {
            let place = self
                .participants
                .iter()
                .position(|(it, _)| *it == participant);
            place.unwrap_or_default() * pitch + pitch / 2
        };
        let (tail, head) = (lifeline(from), lifeline(to));
        let (left, right) = (tail.min(head), tail.max(head));
        let mut row = self.lifelines();
        let span = row.get_mut(left + 1..right).unwrap_or_default();
        span.fill('─');
        let label = shortened(label, span.len().saturating_sub(6));
        let label: Vec<char> = format!(" {label} ").chars().collect();
        let begin = span.len().saturating_sub(label.len()) / 2;
        for (cell, letter) in span.iter_mut().skip(begin).zip(label) {
            *cell = letter;
        }
        let tip = if tail < head {
            (span.last_mut(), '▶')
        } else {
            (span.first_mut(), '◀')
        };
        if let (Some(cell), tip) = tip {
            *cell = tip;
        }
        let row: String = row.into_iter().collect();
        row.trim_end().to_owned()
    }
}

/// What a message is.
struct What {
    /// Method, or status and reason.
    label: String,
    /// Number and method.
    cseq: String,
}

impl What {
    fn of(bytes: &[u8]) -> Self {
        let Ok(message) = Message::parse(bytes) else {
            let label = "no SIP message".to_owned();
            let cseq = String::new();
            return Self { label, cseq };
        };
        let lossy = |bytes: &[u8]| text(&String::from_utf8_lossy(bytes));
        let kind = message.header(HeaderName::ContentType).unwrap_or_default();
        let is_sdp = kind.to_ascii_lowercase().starts_with(b"application/sdp");
        let body = if is_sdp && !message.body().is_empty() {
            " (SDP)"
        } else {
            ""
        };
        let label = if message.is_request() {
            lossy(message.method().as_bytes())
        } else {
            format!("{} {}", message.status(), lossy(message.reason()))
        };
        let cseq = message.header(HeaderName::CSeq).unwrap_or_default();
        Self {
            label: format!("{label}{body}"),
            cseq: lossy(cseq),
        }
    }
}

/// A text of a peer, safe for a terminal.
fn text(text: &str) -> String {
    shortened(&printable(text), LONGEST_TEXT)
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// Microseconds as seconds with three digits after the point.
fn seconds(micros: u64) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(time: &str, direction: &str, remote: &str, text: &str) -> CapturedMessage {
        CapturedMessage {
            time: format!("2026-11-22T10:00:{time}Z"),
            direction: direction.to_owned(),
            transport: "TLS".to_owned(),
            local: "192.0.2.1:5061".parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            worker: 0,
            call_id: "c1".to_owned(),
            text: Some(text.replace('\n', "\r\n")),
            base64: None,
        }
    }

    const INVITE: &str = "INVITE sip:b@x SIP/2.0\nCSeq: 1 INVITE\nContent-Type: application/sdp\nContent-Length: 2\n\nv=";

    #[test]
    fn a_call_is_drawn_with_a_column_for_each_participant() {
        let mut ladder = Ladder::default();
        let ringing = "SIP/2.0 180 Ringing\nCSeq: 1 INVITE\n\n";
        let mut drawn = String::new();
        for message in [
            message("00.000", "received", "192.0.2.7:5060", INVITE),
            message(
                "00.000500",
                "sent",
                "192.0.2.7:5060",
                "SIP/2.0 100 Trying\nCSeq: 1 INVITE\n\n",
            ),
            message("00.001", "sent", "[2001:db8::9]:40000", INVITE),
            message("01.101", "received", "[2001:db8::9]:40000", ringing),
            message("01.102", "sent", "192.0.2.7:5060", ringing),
        ] {
            drawn += &ladder.rows(&message);
        }
        let expected = [
            "",
            "Call-ID c1",
            "                            192.0.2.7:5060                    Tandem",
            "                                   │                             │",
            "   0.000    +0.000                 │─────── INVITE (SDP) ───────▶│  1 INVITE  TLS",
            "   0.000    +0.000                 │◀─────── 100 Trying ─────────│  1 INVITE  TLS",
            "",
            "                            192.0.2.7:5060                    Tandem                 [2001:db8::9]:40000",
            "                                   │                             │                             │",
            "   0.001    +0.000                 │                             │─────── INVITE (SDP) ───────▶│  1 INVITE  TLS",
            "   1.101    +1.100                 │                             │◀─────── 180 Ringing ────────│  1 INVITE  TLS",
            "   1.102    +0.001                 │◀─────── 180 Ringing ────────│                             │  1 INVITE  TLS",
        ];
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected, "{drawn}");
    }

    #[test]
    fn a_peer_cannot_control_the_terminal_and_cannot_break_the_columns() {
        let reason = format!(
            "SIP/2.0 200 \u{1b}[2J\u{9b}1m{}\nCSeq: 1 \u{1b}]0;x\u{7}\n\n",
            "x".repeat(5_000)
        );
        let mut hostile = message("00.000", "received", "192.0.2.7:5060", &reason);
        hostile.call_id = format!("c\u{1b}[31m\n{}", "y".repeat(5_000));
        hostile.transport = "\u{1b}c".to_owned();
        let drawn = Ladder::default().rows(&hostile);
        let odd = drawn
            .chars()
            .find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(odd, None, "{drawn:?}");
        assert_eq!(drawn.lines().count(), 5, "{drawn}");
        assert!(
            drawn.lines().all(|line| line.chars().count() < 250),
            "{drawn}"
        );
    }

    #[test]
    fn many_peers_do_not_make_it_wider_and_wider() {
        let mut ladder = Ladder::default();
        for port in 1..=100 {
            let drawn = ladder.rows(&message(
                "00.000",
                "received",
                &format!("192.0.2.7:{port}"),
                INVITE,
            ));
            assert!(drawn.contains(&format!("192.0.2.7:{port}")), "{drawn}");
            assert!(drawn.contains("Tandem"), "{drawn}");
            assert!(ladder.participants.len() <= MOST);
        }
    }

    #[test]
    fn what_is_no_message_is_drawn_as_such() {
        let drawn =
            Ladder::default().rows(&message("00.000", "received", "192.0.2.7:5060", "\u{0}"));
        assert!(drawn.contains("no SIP message"), "{drawn}");
    }
}
