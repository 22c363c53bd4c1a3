//! Reads the lines of a trace from the server.
use crate::ctl::access::Access;
use crate::ctl::call::{incomplete, open_stream};
use anyhow::{Context as _, anyhow, bail};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::Value;
use std::time::Duration;

/// Longest line, in bytes. The longest message has 256 KiB, and JSON may write each byte as six.
const LONGEST_LINE: usize = 4 << 20;

/// What a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Stop,
}

/// Starts a trace, and passes its lines to `take` until it stops or fails. `timeout` is for the start.
///
/// # Errors
/// The server refuses or cannot be reached, the connection breaks, or `take` fails.
pub(super) fn read(
    access: &Access,
    request: &Value,
    timeout: Duration,
    take: impl FnMut(&[u8]) -> anyhow::Result<Next>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let request = request.to_string();
        let body = open_stream(access, (Method::POST, "/trace"), request, timeout).await?;
        lines(access, body, take).await
    });
    // A name that is still being resolved must not delay the error.
    runtime.shutdown_background();
    result
}

async fn lines(
    access: &Access,
    mut body: Incoming,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<Next>,
) -> anyhow::Result<()> {
    let mut waiting = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.with_context(|| incomplete(access))?;
        waiting.extend_from_slice(&frame.into_data().unwrap_or_default());
        let mut begin = 0;
        for end in line_ends(&waiting) {
            if take(waiting.get(begin..end).unwrap_or_default())? == Next::Stop {
                return Ok(());
            }
            begin = end + 1;
        }
        waiting.drain(..begin);
        if waiting.len() > LONGEST_LINE {
            bail!("{} sends a line that is too long", access.address);
        }
    }
    Err(anyhow!(incomplete(access)))
}

/// The ends of the lines that are complete.
fn line_ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(end, _)| end)
}
