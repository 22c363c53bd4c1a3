//! The Reason of our CANCEL (RFC 3326) tells a ringing phone why its branch is cancelled. A phone that knows that the
//! call was answered elsewhere does not list it as missed.

use sip_message::{HeaderName, Message, reason_phrase};

/// Maximum size of the reasons of one request that are kept, in bytes. Further values are left out.
const MOST: usize = 512;

/// Another branch has answered the call.
pub(super) const ANSWERED_ELSEWHERE: &[u8] = b"SIP;cause=200;text=\"Call completed elsewhere\"";

/// Reason for the response that decided: the response of another branch, or the status that stands for a timeout.
pub(super) fn of_status(status: u16) -> Vec<u8> {
    let phrase = reason_phrase(status);
    format!("SIP;cause={status};text=\"{phrase}\"").into_bytes()
}

/// Reasons in a CANCEL or BYE; empty if it has none.
pub(super) fn of_request(request: &Message<'_>) -> Vec<u8> {
    let mut reason = Vec::new();
    for value in request.values(HeaderName::Reason) {
        let separator: &[u8] = if reason.is_empty() { b"" } else { b", " };
        if reason.len() + separator.len() + value.len() > MOST {
            break;
        }
        reason.extend_from_slice(separator);
        reason.extend_from_slice(value);
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_itself_as_the_cause() {
        let rows = [
            (408, "SIP;cause=408;text=\"Request Timeout\""),
            (603, "SIP;cause=603;text=\"Decline\""),
            (699, "SIP;cause=699;text=\"Global Failure\""),
        ];
        for (status, expected) in rows {
            assert_eq!(of_status(status), expected.as_bytes(), "{status}");
        }
    }

    #[test]
    fn the_reasons_of_a_caller_pass_as_far_as_there_is_room() {
        let long = format!("SIP;cause=487;text=\"{}\"", "x".repeat(MOST));
        let q850 = "Q.850;cause=16;text=\"Terminated, by the caller\"";
        let rows = [
            (String::new(), String::new()),
            (format!("Reason: {q850}\r\n"), q850.to_owned()),
            (
                format!("Reason: SIP;cause=487, {q850}\r\nreason : x;a=b\r\n"),
                format!("SIP;cause=487, {q850}, x;a=b"),
            ),
            (
                format!("Reason: {q850}\r\nReason: {long}\r\nReason: x;a=b\r\n"),
                q850.to_owned(),
            ),
        ];
        for (headers, expected) in rows {
            let cancel = format!("CANCEL sip:bob@example.org SIP/2.0\r\n{headers}\r\n");
            let cancel = Message::parse(cancel.as_bytes()).expect("a message");
            assert_eq!(of_request(&cancel), expected.as_bytes(), "{headers}");
        }
    }
}
