//! The methods `dialogs.list`, `dialogs.get`, `dialogs.end` and `dialogs.stats`.
mod end;
mod position;
mod shown;
mod stats;

pub(super) use end::end;
pub(super) use stats::stats;

use crate::control::{Control, Page, PlacedDialog, Position, Running};
use serde_json::{Value, json};
use sip_elements::DialogFilter;
use sip_elements::trace::Selection;
use tandem_http::rpc::{Arguments, Failure, code};

/// Default page size.
const PAGE: u64 = 100;
/// Dialogs of one Call-ID that are shown or ended at once. An INVITE that forks has at most 17.
const MOST_OF_A_CALL: usize = 64;
/// The longest Call-ID, in bytes.
const LONGEST_CALL_ID: usize = 1_024;

pub(super) async fn list(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let filter = DialogFilter {
        id: None,
        about: about(&arguments)?,
        is_confirmed: state(&arguments)?,
    };
    let after = arguments
        .text("after")
        .map_or(Ok(Position::default()), position::read)?;
    let limit = arguments.number("limit").unwrap_or(PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // One more than requested, to detect a next page.
    let page = control.dialogs(running, filter, after, limit + 1).await;
    let Page {
        mut dialogs, next, ..
    } = page.map_err(Failure::refused)?;
    let more = dialogs.len() > limit;
    dialogs.truncate(limit);
    let next = dialogs
        .last()
        .filter(|_| more)
        .map(PlacedDialog::next)
        .or(next);
    let now = control.clock.now();
    let dialogs = dialogs.iter().map(|placed| shown::summary(placed, now));
    Ok(json!({
        "dialogs": dialogs.collect::<Vec<_>>(),
        "next": next.map(position::write),
    }))
}

pub(super) async fn get(
    control: &Control,
    running: &Running,
    arguments: Arguments,
) -> Result<Value, Failure> {
    let found = find(control, running, &arguments).await?;
    let now = control.clock.now();
    let dialogs = found.iter().map(|placed| shown::all(placed, now));
    Ok(json!({ "dialogs": dialogs.collect::<Vec<_>>() }))
}

/// The dialogs that the argument `id` names: the one with this identifier, or all with this Call-ID.
async fn find(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Vec<PlacedDialog>, Failure> {
    let given = arguments.text("id").unwrap_or_default();
    let call = call("id", given)?;
    if let Some(id) = identifier(given) {
        let found = control.dialog(running, id).await;
        if let Some(found) = found.map_err(Failure::refused)? {
            return Ok(vec![found]);
        }
    }
    let found = control.dialogs_of_call(running, call, MOST_OF_A_CALL).await;
    let found = found.map_err(Failure::refused)?;
    if found.is_empty() {
        let problem = format!(
            "there is no dialog with the id or Call-ID {}; dialogs.list lists those there are",
            json!(given)
        );
        return Err(Failure::refused(problem));
    }
    Ok(found)
}

/// The identifier of a dialog, as in records and events.
fn identifier(text: &str) -> Option<u128> {
    let is_identifier = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_identifier.then(|| u128::from_str_radix(text, 16).ok())?
}

/// The Call-ID in an argument.
fn call(name: &str, call_id: &str) -> Result<Selection, Failure> {
    if call_id.is_empty() || call_id.len() > LONGEST_CALL_ID {
        let problem = format!("`{name}`: must have from 1 to {LONGEST_CALL_ID} bytes");
        return Err(Failure::new(code::INVALID_PARAMS, problem));
    }
    Ok(Selection::Call(call_id.as_bytes().into()))
}

/// The user or the Call-ID whose dialogs are wanted.
fn about(arguments: &Arguments) -> Result<Option<Selection>, Failure> {
    match (arguments.text("user"), arguments.text("call_id")) {
        (None, None) => Ok(None),
        (None, Some(call_id)) => call("call_id", call_id).map(Some),
        (Some(user), None) => match Selection::user(user) {
            Some(user) => Ok(Some(user)),
            None => Err(Failure::new(
                code::INVALID_PARAMS,
                format!(
                    "`user` = {}: must be user@domain, a user part, or a sip or tel URI",
                    json!(user)
                ),
            )),
        },
        (Some(_), Some(_)) => Err(Failure::new(
            code::INVALID_PARAMS,
            "name either `user` or `call_id`",
        )),
    }
}

/// Whether confirmed or early dialogs are wanted; `None`: both.
fn state(arguments: &Arguments) -> Result<Option<bool>, Failure> {
    match arguments.text("state") {
        None => Ok(None),
        Some("early") => Ok(Some(false)),
        Some("confirmed") => Ok(Some(true)),
        Some(other) => Err(Failure::new(
            code::INVALID_PARAMS,
            format!("`state` = {}: must be early or confirmed", json!(other)),
        )),
    }
}
