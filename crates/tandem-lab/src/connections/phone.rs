//! A phone that stays registered over its connection and responds to requests; and the phone that calls it.

use super::client::{Client, Opener, expect};
use super::options::Units;
use super::requests::Unit;
use crate::credentials::Nonce;
use crate::run::{Dialog, respond};
use anyhow::anyhow;
use sip_message::{HeaderName, Message, Method};
use std::time::{Duration, Instant};

impl Units {
    /// How permanent connections begin.
    pub(super) const fn of(transport: super::Transport) -> Self {
        match transport {
            super::Transport::Tcp => Self::Plain,
            super::Transport::Tls => Self::Full,
        }
    }
}

/// The first request of a dialog or registration. Numbers of different processes are disjoint.
pub(super) fn first_unit(number: u64, user: u64) -> Unit {
    Unit {
        number: (u64::from(std::process::id()) << 32) + number,
        user: user as u32,
        callee: user as u32,
        cseq: 1,
    }
}

/// Opens a connection and registers a subscriber over it, or only sends OPTIONS.
pub(super) async fn enlist(opener: &Opener, user: u64) -> anyhow::Result<Client> {
    let mut client = opener.open().await?;
    let unit = first_unit(user, user);
    if opener.target().unregistered {
        client.options(unit).await?;
    } else {
        client.register(unit).await?;
    }
    Ok(client)
}

/// The To tag that identifies the phone that answered.
fn tag_of(user: u64) -> String {
    format!("phone{user}")
}

/// Responds to all requests until the connection ends.
pub(super) async fn serve(mut client: Client, user: u64) -> anyhow::Result<()> {
    let tag = tag_of(user);
    let mut answers = Vec::new();
    loop {
        let octets = client.receive().await?;
        let Ok(request) = Message::parse(&octets) else {
            continue;
        };
        let (port, subscribers) = (&client.writer.port, &client.writer.subscribers);
        let contact = |into: &mut Vec<u8>| port.write_contact(subscribers, user as u32, into);
        let statuses: &[u16] = match request.method() {
            _ if !request.is_request() => &[],
            Method::Ack => &[],
            Method::Invite => &[180, 200],
            _ => &[200],
        };
        answers.clear();
        for status in statuses {
            let (with, server) = ((*status, tag.as_bytes()), client.server);
            respond(&request, with, server, contact, &mut answers);
        }
        if !answers.is_empty() {
            client.send(&answers).await?;
        }
    }
}

/// The result of a call.
pub(super) struct Call {
    /// Time until the 200.
    pub(super) delay: Duration,
    /// Whether the phone that answered is the one that was called.
    pub(super) is_right: bool,
}

/// Calls a phone and hangs up at once. `number` identifies the call.
pub(super) async fn call(caller: &mut Client, number: u64, callee: u64) -> anyhow::Result<Call> {
    let mut unit = first_unit(number, callee);
    let begun = Instant::now();
    let request = caller.writer.invite(unit, None);
    let mut response = caller.ask(&request).await?;
    if let Some(mut nonce) = challenge_in(&response) {
        acknowledge_refusal(caller, unit, &response).await?;
        unit.cseq += 1;
        let request = caller.writer.invite(unit, Some(&mut nonce));
        response = caller.ask(&request).await?;
    }
    let delay = begun.elapsed();
    if let Err(error) = expect(&response, Method::Invite) {
        acknowledge_refusal(caller, unit, &response).await?;
        return Err(error);
    }
    let answer = Message::parse(&response).map_err(|_| anyhow!("the response is not SIP"))?;
    let to = answer.header(HeaderName::To).unwrap_or_default();
    let tag = format!(";tag={}", tag_of(callee));
    let is_right = to.ends_with(tag.as_bytes());
    hang_up(caller, unit, &answer).await?;
    Ok(Call { delay, is_right })
}

async fn hang_up(caller: &mut Client, mut unit: Unit, answer: &Message<'_>) -> anyhow::Result<()> {
    let dialog = Dialog::of(answer, &caller.writer.port, Some(caller.server))
        .ok_or_else(|| anyhow!("the 2xx has no contact that can be reached"))?;
    let request = caller.writer.acknowledge(unit, &dialog);
    caller.send(&request).await?;
    unit.cseq += 1;
    let request = caller.writer.hang_up(unit, &dialog);
    let response = caller.ask(&request).await?;
    expect(&response, Method::Bye)
}

fn challenge_in(response: &[u8]) -> Option<Nonce> {
    let response = Message::parse(response).ok()?;
    (response.status() == 407)
        .then(|| Nonce::of(&response, true))
        .flatten()
}

async fn acknowledge_refusal(
    caller: &mut Client,
    unit: Unit,
    response: &[u8],
) -> anyhow::Result<()> {
    let Ok(response) = Message::parse(response) else {
        return Ok(());
    };
    let ack = caller.writer.acknowledge_refusal(unit, &response);
    caller.send(&ack).await
}
