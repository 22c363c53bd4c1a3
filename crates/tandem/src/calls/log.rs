//! Lines of the log about calls: when a call starts, is answered and ends.
//!
//! They have a queue of their own, because whatever reads the log may be slow. Lines that it cannot take in time are dropped and counted.
use super::SharedEvent;
use super::line::{between, ended_by, id, text};
use super::queue::{self, Bounds, Level, Receiver, Sender};
use crate::config::CallLines;
use crate::control::Control;
use sip_dialog::{CallEvent, Change};
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::info;

/// Lines that may wait.
const WAITING: Bounds = Bounds {
    items: 8_192,
    bytes: 8 << 20,
};
/// Lines that are written at once.
const BATCH: usize = 256;

/// The end of the queue that events enter.
pub(super) struct CallLog {
    control: Arc<Control>,
    queue: Sender<SharedEvent>,
}

impl CallLog {
    /// Starts to write. It ends when the returned log is dropped.
    pub(super) fn start(control: &Arc<Control>) -> (Self, JoinHandle<()>) {
        let (queue, events) = queue::bounded(WAITING, Arc::<Level>::default());
        let log = Self {
            control: Arc::clone(control),
            queue,
        };
        (log, tokio::spawn(run(events)))
    }

    /// Passes events on that the configuration wants in the log. It never waits.
    pub(super) fn offer(&self, events: &[SharedEvent]) {
        let lines = self.control.configuration.load().log.calls;
        for event in events.iter().filter(|event| is_wanted(lines, event.change)) {
            if self.queue.try_send(Arc::clone(event)).is_err() {
                self.control.counters.call_lines_dropped.inc();
            }
        }
    }
}

/// Whether the log gets a line about this change.
pub(super) const fn is_wanted(lines: CallLines, change: Change) -> bool {
    match (lines, change) {
        (CallLines::None, _) | (_, Change::Ringing) => false,
        (CallLines::Ended, _) => matches!(change, Change::Ended(_)),
        (CallLines::All, _) => true,
    }
}

async fn run(mut events: Receiver<SharedEvent>) {
    let mut taken = Vec::new();
    while events.take(&mut taken, BATCH).await {
        let batch = std::mem::take(&mut taken);
        let write_all = move || {
            for event in &batch {
                write(event);
            }
            batch
        };
        if let Ok(batch) = spawn_blocking(write_all).await {
            events.done(&batch);
        }
    }
}

/// Writes one line. Fields that are not known are absent.
fn write(event: &CallEvent) {
    let call = &*event.call;
    let (what, ended) = match event.change {
        Change::Started => ("started", None),
        Change::Ringing => ("ringing", None),
        Change::Answered => ("answered", None),
        Change::Ended(ended) => ("ended", Some(ended_by(ended))),
    };
    let [call_id, from, to] = [&call.call_id, &call.from, &call.to].map(|of| printable(of));
    let given = |bytes: &[u8]| (!bytes.is_empty()).then(|| printable(bytes));
    let destination = call.destination.map(|(address, _)| address);
    info!(
        call_id,
        id = %id(call),
        from,
        to,
        identity = given(&call.identity),
        source = %call.source,
        destination = destination.map(tracing::field::display),
        status = (call.status != 0).then_some(call.status),
        ended_by = ended.map(tracing::field::display),
        reason = given(&call.reason),
        ring_ms = call.ringing.map(|_| between(call.ringing, call.answered.or(call.ended))),
        talk_ms = call.ended.and(call.answered).map(|_| between(call.answered, call.ended)),
        "call {what}"
    );
}

/// Bytes from the network as text without control characters of any kind. The log itself escapes quotes.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let is_control =
        |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    text(bytes).replace(is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::sample::{self, call, ended};
    use crate::calls::written::Written;
    use crate::config::Configuration;
    use sip_dialog::Ended;
    use tracing::subscriber::with_default;

    /// What the log has about an event, as text and as JSON.
    fn lines(event: &CallEvent) -> (String, String) {
        let (text, json) = (Written::default(), Written::default());
        let of_json = json.clone();
        with_default(text.subscriber(), || write(event));
        let log = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || of_json.clone());
        with_default(log.finish(), || write(event));
        (text.text(), json.text())
    }

    fn event(change: Change) -> CallEvent {
        CallEvent {
            change,
            call: Box::new(call(42)),
        }
    }

    #[test]
    fn a_line_says_which_call_it_is_about_and_what_is_known() {
        let (text, _) = lines(&ended(42));
        let (_, line) = text.split_once("  INFO ").expect("a level");
        let expected = concat!(
            r#"call ended call_id="call-42@192.0.2.7" id=0000000000000000000000000000002a "#,
            r#"from="sip:alice@example.org" to="sip:bob@example.org" identity="alice@example.org" "#,
            r#"source=192.0.2.7:5060 destination=[2001:db8::9]:5061 status=200 ended_by=callee "#,
            r#"reason="Q.850;cause=16" ring_ms=2750 talk_ms=60007"#,
            "\n"
        );
        assert_eq!(line, expected);
        let mut started = event(Change::Started);
        let call = &mut started.call;
        (call.ringing, call.answered, call.ended, call.destination) = Default::default();
        (call.status, call.reason) = Default::default();
        let (text, _) = lines(&started);
        assert!(text.contains("call started"), "{text}");
        assert!(text.ends_with("source=192.0.2.7:5060\n"), "{text}");
    }

    #[test]
    fn hostile_texts_forge_no_line_and_no_field() {
        let hostile = b"x\" status=999 ended_by=caller\r\n2026-11-22T09:00:00Z  WARN auth failed source=192.0.2.7\x00\x07\x1b[2J\xff\xc2\x9b\xe2\x80\xa8";
        let mut event = ended(7);
        for field in [
            &mut event.call.call_id,
            &mut event.call.from,
            &mut event.call.to,
            &mut event.call.identity,
            &mut event.call.reason,
        ] {
            *field = hostile[..].into();
        }
        let (text, json) = lines(&event);
        for line in [&text, &json] {
            let controls = line.chars().filter(|letter| letter.is_control());
            assert_eq!(controls.collect::<String>(), "\n", "{line}");
            assert!(line.ends_with('\n') && !line.contains('\u{2028}'), "{line}");
        }
        assert_eq!(text.matches(r#"x\" status=999"#).count(), 5, "{text}");
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["status"], 200);
        assert_eq!(read["ended_by"], "callee");
        assert_eq!(read["from"], read["call_id"]);
    }

    #[test]
    fn lines_that_the_log_does_not_take_in_time_are_dropped_and_counted() {
        let mut configuration = Configuration::default();
        configuration.log.calls = CallLines::All;
        let control = Arc::new(Control::new(None, configuration, None));
        let (queue, _waiting) = queue::bounded(WAITING, Arc::<Level>::default());
        let log = CallLog {
            control: Arc::clone(&control),
            queue,
        };
        let events = [sample::event(Change::Started, 1)];
        for _ in 0..WAITING.items + 10 {
            log.offer(&events);
        }
        assert_eq!(control.counters.call_lines_dropped.get(), 10);
    }

    #[test]
    fn only_the_wanted_changes_get_a_line() {
        let end = Change::Ended(Ended::Refused);
        for (lines, wanted) in [
            (CallLines::None, [false, false, false, false]),
            (CallLines::Ended, [false, false, false, true]),
            (CallLines::All, [true, false, true, true]),
        ] {
            let changes = [Change::Started, Change::Ringing, Change::Answered, end];
            assert_eq!(changes.map(|change| is_wanted(lines, change)), wanted);
        }
    }
}
