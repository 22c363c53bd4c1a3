//! Parks requests that wait for the control plane, and answers those that wait in vain.

use crate::own_response::{Origin, Refusal, respond, send_trying};
use crate::parked::ParkedRequest;
use crate::phase::{Need, ResumeAt};
use crate::worker::Worker;
use crate::{DescribedId, Question};
use sip_message::{Message, Method};
use sip_transaction::{Account, Table};
use std::sync::Arc;

/// The maximum number of questions for one request: about the credentials, whether the callee exists, and about the session
/// description.
const MAX_QUESTIONS: u8 = 4;

/// Parks a request on a question. From now on it has a transaction, so that its retransmissions are absorbed.
pub(crate) fn park(
    worker: &mut Worker<'_, '_>,
    request: &Message<'_>,
    mut origin: Origin,
    need: Need,
    resume_at: ResumeAt,
) -> Result<(), Refusal> {
    if origin.questions_asked >= MAX_QUESTIONS {
        return Err(Refusal::Because(500, "The request waited too often"));
    }
    let is_new = origin.server.is_none();
    let server = origin.server_transaction(&mut worker.parts, request)?;
    let parts = &mut worker.parts;
    let account = parts.transactions.server_account(server);
    let account = account.unwrap_or(Account::KNOWN);
    let (live, limit) = (worker.parked.len(), parts.settings.limits.parked_requests);
    let ledger = parts.transactions.ledger();
    if ledger.join(Table::Parked, account, live, limit).is_err() {
        if is_new {
            parts.transactions.abandon_server(server);
        }
        return Err(Refusal::Busy("Too many requests wait"));
    }
    if request.method() == Method::Invite {
        send_trying(parts, request, origin.flow, server);
    }
    origin.questions_asked += 1;
    let bytes: Arc<[u8]> = request.bytes().into();
    let parked = ParkedRequest {
        origin,
        bytes: Arc::clone(&bytes),
        resume_at,
        account,
    };
    let deadline = parts.now + parts.settings.question_deadline;
    let ticket = worker
        .parked
        .park(parked, deadline, parts.transactions.ledger());
    parts.metrics.questions.increment();
    parts.output.ask(match need {
        Need::Credentials { username, domain } => Question::Credentials {
            ticket,
            username,
            domain,
        },
        Need::Description => Question::Describe {
            ticket: DescribedId::Request(ticket),
            message: bytes,
            source: origin.client,
        },
    });
    Ok(())
}

/// Refuses the parked requests whose deadline has passed.
pub(crate) fn expire(worker: &mut Worker<'_, '_>) {
    while let Some(parked) = worker
        .parked
        .pop_expired(worker.parts.now, worker.parts.transactions.ledger())
    {
        worker.parts.metrics.questions_expired.increment();
        refuse(
            worker,
            &parked,
            &Refusal::Because(500, parked.resume_at.reason_when_late()),
        );
    }
}

/// Answers a parked request with a refusal.
pub(crate) fn refuse(worker: &mut Worker<'_, '_>, parked: &ParkedRequest, refusal: &Refusal) {
    if let Ok(request) = Message::parse(&parked.bytes) {
        respond(&mut worker.parts, &request, &parked.origin, refusal);
    }
}
