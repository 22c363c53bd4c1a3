//! Requests to the admin interface, over TCP or a Unix socket: one JSON-RPC call, or a stream.
use super::access::{Access, Address};
use anyhow::{Context as _, anyhow, bail};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Maximum size of a response, in bytes.
const LONGEST_RESPONSE: usize = 256 << 20;

/// Returns the result of one JSON-RPC call, which takes at most `timeout` from the connection to the last byte.
///
/// # Errors
/// What went wrong and how to fix it, for people.
pub fn call(
    access: &Access,
    method: &str,
    params: &Value,
    timeout: Duration,
) -> anyhow::Result<Value> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = request.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let exchanged =
        runtime.block_on(async { tokio::time::timeout(timeout, exchange(access, request)).await });
    // A name that is still being resolved must not delay the error.
    runtime.shutdown_background();
    let server = &access.address;
    let (status, body) = exchanged.map_err(|_| silent(access, timeout))??;
    if status == StatusCode::UNAUTHORIZED {
        bail!(token_missing(access));
    }
    let answer: Value = serde_json::from_slice(&body).map_err(|_| {
        anyhow!(
            "{server} answers {status}, but not like Tandem's admin interface: check the address"
        )
    })?;
    match (answer.get("result"), answer.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (_, Some(Value::String(refusal))) => bail!("{server} answers {status}: {refusal}"),
        (_, Some(error)) => bail!(refused(method, error)),
        _ => bail!("{server} answers {status} without a result: {answer}"),
    }
}

/// Opens a stream: requests `target` and returns the body of the response. It takes at most `timeout` until the first bytes of the
/// response.
pub(super) async fn open_stream(
    access: &Access,
    (method, target): (Method, &str),
    request: String,
    timeout: Duration,
) -> anyhow::Result<Incoming> {
    let server = &access.address;
    let responded = tokio::time::timeout(timeout, async {
        let response = respond(access, method, target, request).await?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        let (status, body) = read(access, response).await?;
        if status == StatusCode::UNAUTHORIZED {
            bail!(token_missing(access));
        }
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        match problem.get("error").and_then(Value::as_str) {
            Some(problem) => bail!("{server} answers {status}: {problem}"),
            None => bail!("{server} answers {status}: check the address and the server's version"),
        }
    });
    responded.await.map_err(|_| silent(access, timeout))?
}

fn silent(access: &Access, timeout: Duration) -> anyhow::Error {
    let timeout = humantime::format_duration(timeout);
    anyhow!(
        "the server at {} did not answer within {timeout}; wait longer with --timeout",
        access.address
    )
}

fn token_missing(access: &Access) -> String {
    format!(
        "{} requires a token, but it is missing or wrong: name its file with --token-file",
        access.address
    )
}

/// Sends a call; returns the status and body of the response.
async fn exchange(access: &Access, call: String) -> anyhow::Result<(StatusCode, Bytes)> {
    read(access, respond(access, Method::POST, "/rpc", call).await?).await
}

async fn read(
    access: &Access,
    response: Response<Incoming>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST_RESPONSE);
    let body = body.collect().await.map_err(anyhow::Error::from_boxed);
    let body = body.with_context(|| incomplete(access))?;
    Ok((status, body.to_bytes()))
}

pub(super) fn incomplete(access: &Access) -> String {
    format!("the response of {} is incomplete", access.address)
}

/// Sends a request for `target`, which begins with a slash; returns the response, whose body is still to be read.
async fn respond(
    access: &Access,
    method: Method,
    target: &str,
    body: String,
) -> anyhow::Result<Response<Incoming>> {
    let unreachable = |error: io::Error| {
        let advice = access.advice();
        anyhow!(
            "cannot reach the server at {}: {error}\n{advice}",
            access.address
        )
    };
    let head = Request::builder().method(method);
    match &access.address {
        Address::Http(url) => {
            let authority = url.authority().map_or("", |authority| authority.as_str());
            let stream = TcpStream::connect(authority).await.map_err(unreachable)?;
            let path = url.path().trim_end_matches('/');
            let mut head = head.uri(format!("{path}{target}")).header(HOST, authority);
            if let Some(token) = &access.token {
                head = head.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            send(stream, head, body).await
        }
        Address::Socket(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            send(stream, head.uri(target).header(HOST, "localhost"), body).await
        }
    }
    .with_context(|| incomplete(access))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    head: hyper::http::request::Builder,
    body: String,
) -> anyhow::Result<Response<Incoming>> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let head = head.header(CONTENT_TYPE, "application/json");
    let request = head.body(Full::new(Bytes::from(body)))?;
    Ok(sender.send_request(request).await?)
}

/// An error of the server, with its detail lines.
fn refused(method: &str, error: &Value) -> String {
    let message = error
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("the server gives no reason");
    let mut text = format!("{method}: {message}");
    for detail in error
        .get("data")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        text.push_str("\n  ");
        text.push_str(detail.as_str().unwrap_or(&detail.to_string()));
    }
    text
}
