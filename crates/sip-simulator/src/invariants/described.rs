//! Described: a machine whose control plane replaces session descriptions forwards no request with the original one, and replaces
//! none twice. A response may keep the original one, because its call goes on if the control plane fails.
use crate::observe::{Facts, Invariant, Observation, Party, Seen, Violation, violation};
use sip_message::{HeaderName, Method};
use sip_transport::Time;

/// The rule.
#[derive(Debug, Default)]
pub struct Described;

impl Invariant for Described {
    fn name(&self) -> &'static str {
        "described"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        _: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        let Observation::Sent {
            from: Party::Host(host),
            seen: Some(seen),
            ..
        } = *observation
        else {
            return Ok(());
        };
        let Some(mark) = &facts.hosts[host].description_mark else {
            return Ok(());
        };
        // The ACK of a 2xx has no transaction, so nothing can wait for an answer about it.
        if !has_description(seen) || seen.method == Method::Ack {
            return Ok(());
        }
        let body = seen.message.body();
        let marks = body
            .windows(mark.len())
            .filter(|part| *part == mark.as_bytes())
            .count();
        let may_be_original = !seen.is_request();
        match marks {
            1 => Ok(()),
            0 if may_be_original => Ok(()),
            _ => {
                let what = format!("host{host} replaced the session description {marks} times");
                Err(violation(self.name(), what, Some(seen.call_id)))
            }
        }
    }
}

fn has_description(seen: &Seen<'_>) -> bool {
    !seen.message.body().is_empty()
        && seen.message.header(HeaderName::ContentType) == Some(b"application/sdp")
}
