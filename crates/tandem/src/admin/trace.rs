//! `POST /trace`: a stream of the messages of one user or one call, as one JSON object per line.
use super::{check_json, json_response};
use crate::control::Control;
use crate::trace::{Reading, StartError, Started};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use sip_elements::trace::Selection;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tandem_http::Lifetime;

/// Duration of a trace that names none, in seconds.
const USUAL_DURATION: u64 = 60;
/// Longest duration of a trace, in seconds.
const LONGEST_DURATION: u64 = 3_600;
/// Longest Call-ID that can be traced, in bytes.
const LONGEST_CALL_ID: usize = 1_024;
/// How long a reader may take for the last lines. Then its connection is closed, even if it never reads.
const LAST_LINES: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    user: Option<String>,
    call_id: Option<String>,
    seconds: Option<u64>,
}

impl Request {
    fn read(body: &[u8]) -> Result<(Selection, Started), String> {
        let Self {
            user,
            call_id,
            seconds,
        } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let selection = match (&user, &call_id) {
            (Some(user), None) => Selection::user(user).ok_or_else(|| {
                format!(
                    "`user` = {}: must be user@domain, a user part, or a sip or tel URI",
                    json!(user)
                )
            })?,
            (None, Some(id)) if !id.is_empty() && id.len() <= LONGEST_CALL_ID => {
                Selection::Call(id.as_bytes().into())
            }
            (None, Some(_)) => {
                return Err(format!(
                    "`call_id`: must have from 1 to {LONGEST_CALL_ID} bytes"
                ));
            }
            _ => return Err("name either `user` or `call_id`".to_owned()),
        };
        let seconds = seconds.unwrap_or(USUAL_DURATION);
        if !(1..=LONGEST_DURATION).contains(&seconds) {
            return Err(format!(
                "`seconds` = {seconds}: must be from 1 to {LONGEST_DURATION}"
            ));
        }
        let started = Started {
            user,
            call_id,
            seconds,
        };
        Ok((selection, started))
    }
}

pub(super) async fn trace(
    State(control): State<Arc<Control>>,
    Extension(lifetime): Extension<Lifetime>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(refusal) = check_json(&headers) {
        return refusal;
    }
    let refused = |status, problem: String| json_response(status, &json!({ "error": problem }));
    let (selection, started) = match Request::read(&body) {
        Ok(request) => request,
        Err(problem) => return refused(StatusCode::BAD_REQUEST, problem),
    };
    let Some(running) = control.running() else {
        let problem = "the server is starting".to_owned();
        return refused(StatusCode::SERVICE_UNAVAILABLE, problem);
    };
    let duration = Duration::from_secs(started.seconds);
    match control.start_trace(&running, selection, started).await {
        Ok(reading) => {
            lifetime.end_in(duration + LAST_LINES);
            streamed(reading, lifetime)
        }
        Err(error @ StartError::TooMany) => {
            refused(StatusCode::TOO_MANY_REQUESTS, error.to_string())
        }
        Err(error) => refused(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

fn streamed(mut reading: Reading, lifetime: Lifetime) -> Response {
    let ended = reading.ended();
    tokio::spawn(async move {
        ended.await;
        lifetime.end_in(LAST_LINES);
    });
    let lines = stream::unfold(reading, |mut reading| async {
        let line = reading.read().await?;
        Some((Ok::<_, Infallible>(line), reading))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(lines)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_user_or_a_call_and_a_duration_within_an_hour() {
        for (body, problem) in [
            ("", "EOF"),
            ("{}", "name either"),
            (r#"{"user": "alice", "call_id": "1"}"#, "name either"),
            (r#"{"user": "@"}"#, "must be user@domain"),
            (r#"{"call_id": ""}"#, "from 1 to 1024 bytes"),
            (r#"{"user": "alice", "seconds": 0}"#, "from 1 to 3600"),
            (r#"{"user": "alice", "seconds": 3601}"#, "from 1 to 3600"),
            (r#"{"name": "alice"}"#, "unknown field `name`"),
        ] {
            let found = Request::read(body.as_bytes()).expect_err(body);
            assert!(found.contains(problem), "{body}: {found}");
        }
        let (selection, started) = Request::read(br#"{"call_id": "c1"}"#).expect("sound");
        assert_eq!(selection, Selection::Call((*b"c1").into()));
        assert_eq!(started.seconds, 60);
    }
}
