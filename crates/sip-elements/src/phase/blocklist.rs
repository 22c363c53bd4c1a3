//! Sources that get no answer: banned ones, and scanners that identify themselves.

use crate::bans::{Offence, Strike};
use crate::metrics::DropReason;
use crate::own_response::Origin;
use crate::worker::Worker;
use crate::{Record, WorkerParts};
use sip_message::{HeaderName, Message};
use sip_transport::{Flow, Received};

/// Whether the source of a message is banned. Its messages are dropped before parsing, and its connections are closed.
pub(crate) fn is_banned(worker: &mut Worker<'_, '_>, flow: Flow) -> bool {
    let parts = &mut worker.parts;
    let address = flow.remote.ip();
    let is_banned = parts.shared.bans.is_banned(address, parts.now);
    if is_banned {
        parts.metrics.dropped(DropReason::Banned);
        if flow.connection.is_some() && flow.connection.worker() == worker.index {
            parts.output.close(flow.connection);
        }
        worker.is_ignored = true;
    }
    is_banned
}

/// Whether the client of a request that an edge of the fleet forwarded is banned.
pub(crate) fn is_client_banned(worker: &mut Worker<'_, '_>, origin: &Origin) -> bool {
    let parts = &worker.parts;
    let address = origin.client;
    if address == origin.flow.remote.ip() {
        return false;
    }
    let is_banned = parts.shared.bans.is_banned(address, parts.now);
    if is_banned {
        parts.metrics.dropped(DropReason::Banned);
        worker.is_ignored = true;
    }
    is_banned
}

/// Whether a request comes from a client that the operator does not answer, by its User-Agent.
pub(crate) fn is_scanner(worker: &mut Worker<'_, '_>, request: &Message<'_>) -> bool {
    let parts = &worker.parts;
    let unwanted = &parts.settings.bans.drop_user_agents;
    if unwanted.is_empty() {
        return false;
    }
    let Some(agent) = request.values(HeaderName::UserAgent).next() else {
        return false;
    };
    let begins = |name: &String| {
        agent
            .get(..name.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
    };
    let is_scanner = unwanted.iter().any(begins);
    if is_scanner {
        parts.metrics.dropped(DropReason::Scanner);
        worker.is_ignored = true;
    }
    is_scanner
}

/// Counts data on a connection that is not SIP against its source, which the handshake has proven.
///
/// Datagrams prove nothing, so they are only counted. The same applies to connections that this server opened: anyone
/// might get the peer to relay such a message.
pub(crate) fn note_malformed(parts: &mut WorkerParts<'_>, received: &Received<'_>) {
    let flow = received.flow;
    if flow.connection.is_some() && !received.over_our_connection {
        let strike = Strike {
            address: flow.remote.ip(),
            username: b"",
            offence: Offence::Malformed,
            call_id: b"",
        };
        let (bans, output) = (&parts.shared.bans, &mut *parts.output);
        bans.strike(&strike, parts.settings, parts.now, &mut |notice| {
            output.record(Record::Notice(notice));
        });
    }
}
