//! One JSON-RPC call to the admin interface, over TCP or a Unix socket.
use super::access::{Access, Address};
use anyhow::{Context as _, anyhow, bail};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let exchanged = runtime.block_on(async {
        tokio::time::timeout(timeout, exchange(access, request.to_string())).await
    });
    // A name that is still being resolved must not delay the error.
    runtime.shutdown_background();
    let server = &access.address;
    let (status, body) = exchanged.map_err(|_| {
        let timeout = humantime::format_duration(timeout);
        anyhow!(
            "the server at {server} did not answer within {timeout}; wait longer with --timeout"
        )
    })??;
    if status == StatusCode::UNAUTHORIZED {
        bail!(
            "{server} requires a token, but it is missing or wrong: name its file with --token-file"
        );
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

/// Sends the request; returns the status and body of the response.
async fn exchange(access: &Access, request: String) -> anyhow::Result<(StatusCode, Bytes)> {
    let unreachable = |error: io::Error| {
        let advice = access.advice();
        anyhow!(
            "cannot reach the server at {}: {error}\n{advice}",
            access.address
        )
    };
    match &access.address {
        Address::Http(url) => {
            let authority = url.authority().map_or("", |authority| authority.as_str());
            let stream = TcpStream::connect(authority).await.map_err(unreachable)?;
            let path = url.path().trim_end_matches('/');
            let mut post = Request::post(format!("{path}/rpc")).header(HOST, authority);
            if let Some(token) = &access.token {
                post = post.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            send(stream, post, request).await
        }
        Address::Socket(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            send(
                stream,
                Request::post("/rpc").header(HOST, "localhost"),
                request,
            )
            .await
        }
    }
    .with_context(|| format!("the response of {} is incomplete", access.address))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    post: hyper::http::request::Builder,
    request: String,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let post = post.header(CONTENT_TYPE, "application/json");
    let response = sender
        .send_request(post.body(Full::new(Bytes::from(request)))?)
        .await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST_RESPONSE);
    let body = body.collect().await.map_err(anyhow::Error::from_boxed)?;
    Ok((status, body.to_bytes()))
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
