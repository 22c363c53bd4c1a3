//! The WebSocket of one agent.

use super::Controller;
use super::protocol::{AgentReport, FromAgent, FromController, HEARTBEAT, PROTOCOL, SILENCE};
use crate::agent::is_name;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Messages that may wait for an agent. An agent with more waiting messages has stopped reading.
pub(super) const QUEUE: usize = 8_192;

#[derive(Debug)]
pub(super) enum Outgoing {
    Message(FromController),
    /// Calls of a run, with their due times.
    Calls {
        run: u64,
        message: FromController,
        dues: Vec<Instant>,
    },
}

/// Serves an agent until its connection ends.
pub(super) async fn serve(controller: Arc<Controller>, socket: WebSocket, address: SocketAddr) {
    let (mut sink, mut stream) = socket.split();
    let admitted = match hello(&mut stream).await {
        Ok((name, most_phones, report)) => {
            controller
                .state()
                .admit(&name, address, most_phones, report)
        }
        Err(reason) => Err(reason),
    };
    let (connection, outgoing) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => {
            controller
                .state()
                .event(format!("rejected an agent at {address}: {reason}"));
            let refusal = FromController::Refused { reason };
            // The reason arrives only if the agent still reads.
            let _ = timeout(SILENCE, sink.send(text(&refusal))).await;
            let _ = timeout(SILENCE, sink.close()).await;
            return;
        }
    };
    let why = tokio::select! {
        why = hear(&controller, &mut stream, connection) => why,
        why = speak(&controller, &mut sink, outgoing) => why,
    };
    controller.state().gone(connection, &why);
    let _ = timeout(HEARTBEAT, sink.close()).await;
}

/// Waits for the first message, with the agent's name, capacity and state.
async fn hello(stream: &mut SplitStream<WebSocket>) -> Result<(String, u32, AgentReport), String> {
    let said = loop {
        match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(Message::Text(said)))) => break said,
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            _ => return Err("it sent no hello message".into()),
        }
    };
    match serde_json::from_str(&said) {
        Ok(FromAgent::Hello { protocol, .. }) if protocol != PROTOCOL => Err(format!(
            "it uses protocol version {protocol}, but this controller uses version {PROTOCOL}: run agent and controller of the same release"
        )),
        Ok(FromAgent::Hello { name, .. }) if !is_name(&name) => {
            Err("its name is invalid: use letters, digits, `.`, `_` and `-`, at most 64".into())
        }
        Ok(FromAgent::Hello {
            name,
            most_phones,
            run,
            in_progress,
            ..
        }) => {
            let report = AgentReport {
                run,
                in_progress,
                ..AgentReport::default()
            };
            Ok((name, most_phones, report))
        }
        Ok(_) => Err("its first message is not hello".into()),
        Err(error) => Err(format!("invalid message: {error}")),
    }
}

/// Receives messages of an agent until the connection ends or goes silent. Returns the reason.
async fn hear(
    controller: &Controller,
    stream: &mut SplitStream<WebSocket>,
    connection: u64,
) -> String {
    loop {
        let said = match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(said))) => said,
            Ok(Some(Err(error))) => return format!("its connection broke: {error}"),
            Ok(None) => return "it closed its connection".into(),
            Err(_) => return format!("it has been silent for {} s", SILENCE.as_secs()),
        };
        let said = match said {
            Message::Text(said) => said,
            Message::Close(_) => return "it closed its connection".into(),
            Message::Binary(_) => {
                return "invalid message: binary instead of text".into();
            }
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let at = Instant::now();
        match serde_json::from_str(&said) {
            Ok(FromAgent::Begun { batch }) => {
                if let Some(run) = &mut controller.state().run {
                    run.confirmed(connection, batch, at);
                }
            }
            Ok(FromAgent::Report(report)) if report.is_plausible() => {
                controller.state().report(connection, *report);
            }
            Ok(FromAgent::Report(_)) => return "it reports implausible counts".into(),
            Ok(FromAgent::Hello { .. }) => return "it sent hello twice".into(),
            Err(error) => return format!("invalid message: {error}"),
        }
    }
}

/// Sends messages to an agent until that fails. Returns the reason.
async fn speak(
    controller: &Controller,
    sink: &mut SplitSink<WebSocket, Message>,
    mut outgoing: Receiver<Outgoing>,
) -> String {
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (message, calls) = tokio::select! {
            next = outgoing.recv() => match next {
                Some(Outgoing::Message(message)) => (text(&message), None),
                Some(Outgoing::Calls { run, message, dues }) => (text(&message), Some((run, dues))),
                None => return "this controller closed its connection".into(),
            },
            _ = heartbeat.tick() => (Message::Ping(axum::body::Bytes::new()), None),
        };
        match timeout(SILENCE, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return format!("its connection broke: {error}"),
            Err(_) => return format!("it has read nothing for {} s", SILENCE.as_secs()),
        }
        if let Some((run, dues)) = calls {
            controller.written(run, &dues, Instant::now());
        }
    }
}

fn text(message: &FromController) -> Message {
    Message::Text(Utf8Bytes::from(message.to_json()))
}
