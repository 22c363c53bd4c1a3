//! The last events as a ladder: one line for each message, with its sender and receiver.
use crate::dice::Fingerprint;
use crate::observe::{Party, Seen};
use sip_transport::Time;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

/// How many events are kept for the ladder.
const KEPT: usize = 60_000;

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Sent, and will arrive.
    Sent,
    /// Sent, and will arrive twice.
    SentTwice,
    /// Sent, but lost by the network.
    Lost,
    /// Sent, but one end is cut off.
    CutOff,
    /// Arrived.
    Arrived,
    /// Arrived at an address without a live receiver.
    Unheard,
}

#[derive(Debug)]
enum Entry {
    Datagram {
        mark: Mark,
        from: Party,
        source: SocketAddr,
        to: Party,
        destination: SocketAddr,
        bytes: Rc<[u8]>,
    },
    Note {
        who: Party,
        text: String,
    },
}

/// The trace of one world.
#[derive(Debug)]
pub struct Trace {
    start: Time,
    entries: VecDeque<(Time, Entry)>,
    fingerprint: Fingerprint,
}

impl Trace {
    /// Creates an empty trace. The ladder shows times relative to `start`.
    pub fn new(start: Time) -> Self {
        Self {
            start,
            entries: VecDeque::new(),
            fingerprint: Fingerprint::default(),
        }
    }

    /// A hash of everything that was ever traced: equal for equal runs.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint.value()
    }

    pub(crate) fn datagram(
        &mut self,
        now: Time,
        mark: Mark,
        (from, source): (Party, SocketAddr),
        (to, destination): (Party, SocketAddr),
        bytes: &Rc<[u8]>,
    ) {
        self.fingerprint.write_word(now.as_micros());
        self.fingerprint.write_word(mark as u64);
        self.fingerprint.write_word(u64::from(destination.port()));
        self.fingerprint.write(bytes);
        self.push(
            now,
            Entry::Datagram {
                mark,
                from,
                source,
                to,
                destination,
                bytes: Rc::clone(bytes),
            },
        );
    }

    pub(crate) fn note(&mut self, now: Time, who: Party, text: String) {
        self.fingerprint.write_word(now.as_micros());
        self.fingerprint.write(text.as_bytes());
        self.push(now, Entry::Note { who, text });
    }

    fn push(&mut self, now: Time, entry: Entry) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back((now, entry));
    }

    /// The last `lines` lines. With `call_id`, only the messages of that call.
    pub fn ladder(&self, lines: usize, call_id: Option<&[u8]>) -> String {
        let mut chosen: Vec<_> = self
            .entries
            .iter()
            .rev()
            .filter(|(_, entry)| concerns(entry, call_id))
            .take(lines)
            .collect();
        chosen.reverse();
        let mut text = String::new();
        for (at, entry) in chosen {
            self.line(&mut text, *at, entry);
        }
        text
    }

    /// The full text of the last message, or of the last message of a call.
    pub fn last_message(&self, call_id: Option<&[u8]>) -> Option<String> {
        self.entries
            .iter()
            .rev()
            .find_map(|(_, entry)| match entry {
                Entry::Datagram { bytes, .. } if concerns(entry, call_id) => {
                    Some(String::from_utf8_lossy(bytes).into_owned())
                }
                _ => None,
            })
    }

    fn line(&self, text: &mut String, at: Time, entry: &Entry) {
        let elapsed = at.saturating_since(self.start);
        let _ = write!(
            text,
            "{:>6}.{:06} ",
            elapsed.as_secs(),
            elapsed.subsec_micros()
        );
        match entry {
            Entry::Datagram {
                mark,
                from,
                source,
                to,
                destination,
                bytes,
            } => {
                let arrow = match mark {
                    Mark::Sent => "──▶",
                    Mark::SentTwice => "═▶▶",
                    Mark::Lost => "──✗ lost",
                    Mark::CutOff => "──✗ cut off",
                    Mark::Arrived => "··▶",
                    Mark::Unheard => "··✗ unheard",
                };
                let (from, to) = (name(*from, *source), name(*to, *destination));
                let _ = writeln!(text, "{from:>22} {arrow} {to:<22} {}", summary(bytes));
            }
            Entry::Note { who, text: note } => {
                let who = match who {
                    Party::Host(host) => format!("host{host}"),
                    Party::Phone(phone) => format!("phone{phone}"),
                    Party::Nobody => "world".to_owned(),
                };
                let _ = writeln!(text, "{who:>22}  * {note}");
            }
        }
    }
}

fn concerns(entry: &Entry, call_id: Option<&[u8]>) -> bool {
    match (entry, call_id) {
        (Entry::Datagram { bytes, .. }, Some(wanted)) => {
            Seen::read(bytes).is_some_and(|seen| seen.call_id == wanted)
        }
        (Entry::Note { .. }, Some(_)) => false,
        (Entry::Datagram { .. } | Entry::Note { .. }, None) => true,
    }
}

fn name(party: Party, address: SocketAddr) -> String {
    match party {
        Party::Host(host) => format!("host{host} {address}"),
        Party::Phone(phone) => format!("phone{phone} {address}"),
        Party::Nobody => format!("? {address}"),
    }
}

/// The start line and the keys of a message, on one line.
fn summary(bytes: &[u8]) -> String {
    let Some(seen) = Seen::read(bytes) else {
        let beginning = bytes.get(..bytes.len().min(40)).unwrap_or_default();
        return format!("{} bytes: {}", bytes.len(), beginning.escape_ascii());
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let what = if seen.is_request() {
        format!(
            "{} {}",
            text(seen.method.as_bytes()),
            text(seen.message.request_uri())
        )
    } else {
        format!("{} ({})", seen.status, text(seen.method.as_bytes()))
    };
    let (from, to) = (text(seen.from_tag), text(seen.to_tag));
    let (call_id, branch) = (text(seen.call_id), text(seen.branch));
    format!(
        "{what}  cseq={} call={call_id} tags={from}/{to} branch={branch}",
        seen.cseq
    )
}

#[cfg(test)]
mod tests {
    use super::{Mark, Trace};
    use crate::observe::Party;
    use sip_transport::Time;
    use std::rc::Rc;

    const OPTIONS: &str = "OPTIONS sip:b@b.test SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1\r\n\
        From: <sip:a@a.test>;tag=1\r\nTo: <sip:b@b.test>\r\nCall-ID: one\r\nCSeq: 4 OPTIONS\r\n\r\n";

    fn traced(mark: Mark) -> Trace {
        let mut trace = Trace::new(Time::from_unix_seconds(100));
        let now = Time::from_micros(101_500_000);
        let (phone, host) = (
            "10.0.0.1:5060".parse().unwrap(),
            "10.0.0.2:5060".parse().unwrap(),
        );
        let other = OPTIONS.replace("Call-ID: one", "Call-ID: two");
        for message in [OPTIONS, &other] {
            let bytes: Rc<[u8]> = message.as_bytes().into();
            trace.datagram(
                now,
                mark,
                (Party::Phone(3), phone),
                (Party::Host(0), host),
                &bytes,
            );
        }
        trace
    }

    #[test]
    fn the_ladder_shows_time_parties_fate_and_keys_of_the_call_asked_for() {
        let ladder = traced(Mark::Lost).ladder(10, Some(b"one"));
        assert_eq!(ladder.lines().count(), 1, "{ladder}");
        for part in [
            "1.500000",
            "phone3 10.0.0.1:5060",
            "lost",
            "host0",
            "OPTIONS sip:b@b.test",
            "cseq=4",
        ] {
            assert!(ladder.contains(part), "{part} is missing in {ladder}");
        }
        assert_eq!(traced(Mark::Sent).ladder(10, None).lines().count(), 2);
    }

    #[test]
    fn the_fingerprint_tells_different_runs_apart() {
        assert_eq!(
            traced(Mark::Sent).fingerprint(),
            traced(Mark::Sent).fingerprint()
        );
        assert_ne!(
            traced(Mark::Sent).fingerprint(),
            traced(Mark::Lost).fingerprint()
        );
    }
}
