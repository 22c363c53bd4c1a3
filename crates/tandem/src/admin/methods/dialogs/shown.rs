//! Dialogs as JSON.
use crate::calls::line::{hexadecimal, rfc3339, text};
use crate::config::Keyword;
use crate::control::PlacedDialog;
use serde_json::{Value, json};
use sip_dialog::{DialogDetails, PartyDetails};
use sip_transport::Time;

/// What a list shows.
pub(super) fn summary(placed: &PlacedDialog, now: Time) -> Value {
    let details = &placed.dialog.details;
    let call = &details.call;
    let begin = call.answered.unwrap_or(call.started);
    json!({
        "id": hexadecimal(call.id),
        "call_id": text(&call.call_id),
        "state": state(details),
        "age": (now - begin).as_secs(),
        "from": text(&call.from),
        "to": text(&call.to),
        "source": call.source,
        "source_transport": call.source_transport.word(),
        "destination": call.destination.map(|(address, _)| address),
        "destination_transport": call.destination.map(|(_, protocol)| protocol.word()),
        "expires_in": details.expires.map(|expires| (expires - now).as_secs()),
    })
}

/// All that is known.
pub(super) fn all(placed: &PlacedDialog, now: Time) -> Value {
    let details = &placed.dialog.details;
    let call = &details.call;
    let mut shown = summary(placed, now);
    let more = json!({
        "from_tag": given(&call.from_tag),
        "to_tag": given(&call.to_tag),
        "request_uri": text(&call.request_uri),
        "identity": given(&call.identity),
        "attempts": call.attempts,
        "status": (call.status != 0).then_some(call.status),
        "acknowledged": details.is_acknowledged,
        "started": rfc3339(call.started),
        "ringing": call.ringing.map(rfc3339),
        "answered": call.answered.map(rfc3339),
        "expires": details.expires.map(rfc3339),
        "caller": party(&details.caller),
        "callee": details.callee.as_ref().map(party),
        "worker": placed.worker,
        "bytes": details.bytes,
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

/// Whether a dialog is early or confirmed, as one word.
pub(super) const fn state(details: &DialogDetails) -> &'static str {
    if details.is_confirmed {
        "confirmed"
    } else {
        "early"
    }
}

fn party(party: &PartyDetails) -> Value {
    json!({
        "address": party.leg.flow.remote,
        "transport": party.leg.protocol.word(),
        "flow_only": party.leg.is_by_flow,
        "target": given(&party.target),
        "route": given(&party.route),
        "last_cseq": (party.last_cseq != 0).then_some(party.last_cseq),
    })
}

fn given(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| text(bytes).into_owned())
}
