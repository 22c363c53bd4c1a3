//! The method `dialogs.end`.
use super::find;
use super::shown::state;
use crate::admin::failure::{Failure, code};
use crate::admin::methods::arguments::Arguments;
use crate::calls::line::{hexadecimal, text};
use crate::control::{Control, PlacedDialog, Running};
use serde_json::{Value, json};
use sip_elements::EndOutcome;
use std::sync::Arc;
use tracing::info;

/// The longest text of an operator in Reason, in bytes.
const LONGEST_TEXT: usize = 128;

pub(in crate::admin::methods) async fn end(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let reason: Arc<[u8]> = reason(arguments.text("reason"))?.into_bytes().into();
    let found = find(control, running, &arguments).await?;
    let (mut ended, mut is_unreachable) = (Vec::new(), false);
    for placed in &found {
        let outcome = control.end_dialog(running, placed, &reason).await;
        match outcome.map_err(Failure::refused)? {
            EndOutcome::HungUp(sent) => {
                let [caller, callee] = [sent.caller, sent.callee].map(|sent| sent.then_some("BYE"));
                ended.push(shown(placed, caller, callee));
            }
            EndOutcome::Cancelled => ended.push(shown(placed, Some("487"), Some("CANCEL"))),
            EndOutcome::Unreachable => {
                is_unreachable = true;
                continue;
            }
            EndOutcome::Gone | EndOutcome::Continue(_) => continue,
        }
        log(placed, &reason);
    }
    match (ended.is_empty(), is_unreachable) {
        (false, _) => Ok(json!({ "dialogs": ended })),
        (true, true) => Err(Failure::refused(
            "the dialog goes on: neither party can be sent a BYE, because its next hop is unknown or may not be used",
        )),
        (true, false) => Err(Failure::refused("the dialog has just ended")),
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
        "id": hexadecimal(details.call.id),
        "call_id": text(&details.call.call_id),
        "state": state(details),
        "to_caller": caller,
        "to_callee": callee,
    })
}

fn log(placed: &PlacedDialog, reason: &[u8]) {
    let details = &placed.dialog.details;
    let call = &details.call;
    let id = hexadecimal(call.id);
    let [call_id, from, to, reason] = [&call.call_id, &call.from, &call.to, reason].map(text);
    info!(
        id,
        ?call_id,
        ?from,
        ?to,
        ?reason,
        state = state(details),
        "an operator ends a call"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
