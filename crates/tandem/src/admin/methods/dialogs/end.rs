//! The method `dialogs.end`.
use super::find;
use super::shown::state;
use crate::calls::line::{hexadecimal, text};
use crate::control::{Control, DialogError, PlacedDialog, Running};
use serde_json::{Value, json};
use sip_elements::EndOutcome;
use std::sync::Arc;
use tandem_http::rpc::{Arguments, Failure, code};
use tracing::{info, warn};

/// The longest text of an operator in Reason, in bytes.
const LONGEST_TEXT: usize = 128;

pub(in crate::admin::methods) async fn end(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let reason: Arc<[u8]> = reason(arguments.text("reason"))?.into_bytes().into();
    let found = find(control, running, &arguments).await?;
    let (mut ended, mut problem) = (Vec::new(), "the dialog has just ended");
    let mut left = found.iter();
    while let Some(placed) = left.next() {
        // First, because the worker may end the call without answering in time.
        log_order(placed, &reason);
        let outcome = control.end_dialog(running, placed, &reason).await;
        log_outcome(placed, &outcome);
        match outcome {
            Ok(EndOutcome::HungUp(sent)) => {
                let [caller, callee] = [sent.caller, sent.callee].map(|sent| sent.then_some("BYE"));
                ended.push(shown(placed, caller, callee));
            }
            Ok(EndOutcome::Cancelled) => ended.push(shown(placed, Some("487"), Some("CANCEL"))),
            Ok(EndOutcome::AlreadyCancelled) => {
                problem =
                    "the call was cancelled before, and ends with the final response to its INVITE";
            }
            Ok(EndOutcome::Unreachable) => {
                problem = "the call was not ended: no BYE could be sent to either party (next hop unknown or not allowed)";
            }
            Ok(EndOutcome::Gone | EndOutcome::Continue(_)) => {}
            Err(error) => return Err(stopped(&error, &ended, placed, left.as_slice())),
        }
    }
    if ended.is_empty() {
        return Err(Failure::refused(problem));
    }
    Ok(json!({ "dialogs": ended }))
}

/// Why not all dialogs of a call have ended. The details tell about those before and after the one that failed.
fn stopped(
    error: &DialogError,
    ended: &[Value],
    failed: &PlacedDialog,
    left: &[PlacedDialog],
) -> Failure {
    let happens = match error {
        DialogError::Silent { .. } => "may still end",
        DialogError::Undelivered { .. } | DialogError::Busy | DialogError::Unfinished => {
            "was not ended"
        }
    };
    let message = format!("{error}; the dialog {} {happens}", id(failed));
    let ended = ended.iter().map(|dialog| format!("ended: {dialog}"));
    let left = left
        .iter()
        .map(|dialog| format!("not ended: {}", id(dialog)));
    Failure {
        details: ended.chain(left).collect(),
        ..Failure::refused(message)
    }
}

/// The value of Reason (RFC 3326).
fn reason(given: Option<&str>) -> Result<String, Failure> {
    let mut text = "Ended by operator".to_owned();
    if let Some(given) = given {
        if given.is_empty() || given.len() > LONGEST_TEXT || given.contains(char::is_control) {
            let problem = format!(
                "`reason`: must have from 1 to {LONGEST_TEXT} bytes and no control characters"
            );
            return Err(Failure::new(code::INVALID_PARAMS, problem));
        }
        text.push_str(": ");
        for letter in given.chars() {
            if matches!(letter, '"' | '\\') {
                text.push('\\');
            }
            text.push(letter);
        }
    }
    Ok(format!("SIP;cause=487;text=\"{text}\""))
}

/// What was sent to both parties.
fn shown(placed: &PlacedDialog, caller: Option<&str>, callee: Option<&str>) -> Value {
    let details = &placed.dialog.details;
    json!({
        "id": id(placed),
        "call_id": text(&details.call.call_id),
        "state": state(details),
        "to_caller": caller,
        "to_callee": callee,
    })
}

fn id(placed: &PlacedDialog) -> String {
    hexadecimal(placed.dialog.details.call.id)
}

fn log_order(placed: &PlacedDialog, reason: &[u8]) {
    let details = &placed.dialog.details;
    let call = &details.call;
    let [call_id, from, to, reason] = [&call.call_id, &call.from, &call.to, reason].map(text);
    info!(
        id = id(placed),
        ?call_id,
        ?from,
        ?to,
        ?reason,
        state = state(details),
        "an operator ends a call"
    );
}

fn log_outcome(placed: &PlacedDialog, outcome: &Result<EndOutcome, DialogError>) {
    let id = id(placed);
    let outcome = match outcome {
        Ok(EndOutcome::HungUp(_)) => "BYE sent",
        Ok(EndOutcome::Cancelled) => "CANCEL sent",
        Ok(EndOutcome::AlreadyCancelled) => "cancelled before",
        Ok(EndOutcome::Unreachable) => "no next hop for a BYE",
        Ok(EndOutcome::Gone | EndOutcome::Continue(_)) => "ended before",
        Err(error) => {
            warn!(id, %error, "outcome of ending a call");
            return;
        }
    };
    info!(id, outcome, "outcome of ending a call");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::methods;
    use crate::calls::written::Written;
    use crate::control::gated::{Fixture, found, run};
    use sip_elements::{DialogOutcome, HungUp};
    use std::time::Duration;

    #[test]
    fn the_reason_says_that_an_operator_ended_the_call_and_quotes_the_text() {
        for (given, expected) in [
            (None, "SIP;cause=487;text=\"Ended by operator\""),
            (
                Some("fraud"),
                "SIP;cause=487;text=\"Ended by operator: fraud\"",
            ),
            (
                Some("a \"b\" \\ é"),
                "SIP;cause=487;text=\"Ended by operator: a \\\"b\\\" \\\\ é\"",
            ),
        ] {
            assert_eq!(reason(given).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_text_that_could_break_the_header_field_is_refused() {
        for given in ["", "a\r\nX: y", "a\tb", &"x".repeat(129)] {
            let refused = reason(Some(given)).expect_err(given);
            assert_eq!(refused.code, code::INVALID_PARAMS);
        }
        assert!(reason(Some(&"x".repeat(128))).is_ok());
    }

    /// Ends the three dialogs of a call whose home answers in this way, and then no more. Also returns the log.
    fn end_call(outcomes: impl IntoIterator<Item = EndOutcome>) -> (Failure, String) {
        let log = Written::default();
        let _logging = tracing::subscriber::set_default(log.subscriber());
        let mut failure = None;
        run(async {
            let fixture = Fixture::start().await.with_patience(Duration::from_secs(1));
            let dialogs = (1..=3).map(|number| found(number, 10)).collect();
            let (found, next) = (dialogs, None);
            fixture.answer(1, DialogOutcome::Shown { found, next });
            for (number, outcome) in (2..).zip(outcomes) {
                fixture.answer(number, DialogOutcome::Ended(outcome));
            }
            let end = json!({ "id": "a", "reason": "fraud" });
            let refused = methods::call(&fixture.control, "dialogs.end", end).await;
            failure = refused.err();
        });
        (failure.expect("a failure"), log.text())
    }

    /// The lines of the log about a dialog.
    fn lines(log: &str, number: u128) -> Vec<&str> {
        let id = format!("id=\"{}\"", hexadecimal(number));
        log.lines().filter(|line| line.contains(&id)).collect()
    }

    #[test]
    fn a_worker_that_stops_answering_leaves_lines_in_the_log_and_what_has_ended() {
        let sent = HungUp {
            caller: true,
            callee: false,
        };
        let (failure, log) = end_call([EndOutcome::HungUp(sent)]);
        let [first, second, third] = [1, 2, 3].map(hexadecimal);
        let expected = format!("retry; the dialog {second} may still end");
        assert!(failure.message.ends_with(&expected), "{failure:?}");
        let [ended, left] = &failure.details[..] else {
            panic!("{failure:?}")
        };
        let ended: Value = serde_json::from_str(&ended["ended: ".len()..]).expect("JSON");
        assert_eq!(
            (&ended["id"], &ended["to_caller"]),
            (&json!(first), &json!("BYE"))
        );
        assert_eq!(left, &format!("not ended: {third}"));

        for (number, outcome) in [(1, "outcome=\"BYE sent\""), (2, "did not answer in time")] {
            let lines = lines(&log, number);
            let [order, end] = lines[..] else {
                panic!("{log}")
            };
            assert!(order.contains("an operator ends a call"), "{order}");
            assert!(order.contains("fraud"), "{order}");
            assert!(end.contains(outcome), "{end}");
        }
        assert_eq!(lines(&log, 3), [""; 0]);
    }

    #[test]
    fn a_call_that_was_cancelled_before_is_not_reported_as_ended() {
        let (failure, log) = end_call([EndOutcome::AlreadyCancelled; 3]);
        assert!(
            failure.message.starts_with("the call was cancelled before"),
            "{failure:?}"
        );
        assert!(
            lines(&log, 1)[1].contains("outcome=\"cancelled before\""),
            "{log}"
        );
    }
}
