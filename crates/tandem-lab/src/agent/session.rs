//! One connection to the controller, from opening to close.

use super::backoff::Backoff;
use super::player::Player;
use crate::controller::protocol::{FromAgent, FromController, HEARTBEAT, LARGEST_MESSAGE, SILENCE};
use futures_util::{SinkExt, StreamExt};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{self, header::AUTHORIZATION};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// Interval between checks for due registrations.
const TICK: Duration = Duration::from_millis(20);
/// Interval between requests for the phones' counts.
const ASKING: Duration = Duration::from_millis(200);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects to a controller, with the token if there is one, and executes its commands until the connection ends. Returns why it ended.
pub(super) async fn run(
    (controller, token): (&str, Option<&str>),
    name: &str,
    player: &mut Player,
    backoff: &mut Backoff,
    tell: &impl Fn(&str),
) -> String {
    let connecting = timeout(SILENCE, connect(controller, token)).await;
    let mut socket = match connecting {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return format!("cannot connect to the controller {controller}: {error}"),
        Err(_) => return format!("the controller {controller} does not respond"),
    };
    // Count what happened while there was no connection.
    player.catch_up().await;
    if let Err(error) = say(&mut socket, &player.hello(name)).await {
        return format!("lost the controller {controller}: {error}");
    }
    tell(&format!("connected to {controller} as {name}"));
    let end = obey(&mut socket, player, backoff).await;
    // If closing fails, the connection is already closed.
    let _ = timeout(TICK, socket.close(None)).await;
    format!(
        "the connection to {controller} ended: {}",
        end.unwrap_or_else(|error| error.to_string())
    )
}

pub(crate) async fn connect(
    controller: &str,
    token: Option<&str>,
) -> Result<Socket, tungstenite::Error> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_MESSAGE))
        .max_frame_size(Some(LARGEST_MESSAGE));
    let mut request = format!("ws://{controller}/agent").into_client_request()?;
    if let Some(token) = token {
        let value = format!("Bearer {token}")
            .parse()
            .map_err(http::Error::from)?;
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let (socket, _) = connect_async_with_config(request, Some(config), true).await?;
    Ok(socket)
}

/// Executes commands and reports. Returns why it ended.
async fn obey(
    socket: &mut Socket,
    player: &mut Player,
    backoff: &mut Backoff,
) -> Result<String, tungstenite::Error> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut heard, mut reported, mut asked) = (Instant::now(), Instant::now(), Instant::now());
    loop {
        tokio::select! {
            message = socket.next() => {
                heard = Instant::now();
                let Some(message) = message else {
                    return Ok("the controller closed the connection".into());
                };
                match message? {
                    Message::Text(text) => match serde_json::from_str(&text) {
                        Ok(FromController::Refused { reason }) => return Ok(format!("refused: {reason}")),
                        Ok(command) => {
                            backoff.reset();
                            do_it(command, socket, player, heard).await?;
                        }
                        Err(error) => return Ok(format!("invalid message from the controller: {error}")),
                    },
                    Message::Close(_) => return Ok("the controller closed the connection".into()),
                    // The library answers pings.
                    _ => backoff.reset(),
                }
            }
            () = player.told() => {
                if let Some(news) = player.news() {
                    reported = Instant::now();
                    say(socket, &FromAgent::Report(Box::new(news))).await?;
                }
            }
            _ = ticks.tick() => {
                if heard.elapsed() > SILENCE {
                    return Ok(format!("the controller has been silent for {} s", SILENCE.as_secs()));
                }
                let is_time = asked.elapsed() >= if player.is_registering() { ASKING / 2 } else { ASKING };
                if is_time {
                    asked = Instant::now();
                }
                player.work(is_time);
                if reported.elapsed() >= HEARTBEAT {
                    reported = Instant::now();
                    say(socket, &FromAgent::Report(Box::new(player.report()))).await?;
                }
            }
        }
    }
}

async fn do_it(
    command: FromController,
    socket: &mut Socket,
    player: &mut Player,
    read: Instant,
) -> Result<(), tungstenite::Error> {
    match command {
        FromController::Register {
            registration,
            phones,
            per_second,
        } => player.register(registration, phones, per_second).await,
        FromController::Begin {
            run,
            ringing_ms,
            talking_ms,
        } => {
            player.begin(
                run,
                Duration::from_millis(ringing_ms),
                Duration::from_millis(talking_ms),
            );
        }
        FromController::Call { batch, calls } => {
            player.call(&calls, read);
            say(socket, &FromAgent::Begun { batch }).await?;
        }
        FromController::Stop => player.stop(),
        // The reading loop has handled it.
        FromController::Refused { .. } => {}
    }
    Ok(())
}

async fn say(socket: &mut Socket, message: &FromAgent) -> Result<(), tungstenite::Error> {
    // A controller that does not read counts as gone.
    match timeout(SILENCE, socket.send(Message::text(message.to_json()))).await {
        Ok(sent) => sent,
        Err(_) => Err(tungstenite::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}
