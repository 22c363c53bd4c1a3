//! The process that holds connections. It reads how many more to open, and reports the result.
//!
//! An input line is `FIRST COUNT`: the users of the next connections. An output line is `OPEN FAILED REASON`: how many connections are
//! open now, how many of the last ones failed, and why the first of them failed.

use super::client::Opener;
use super::options::{Target, Units};
use super::phone::{enlist, serve};
use anyhow::anyhow;
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Connections being opened at a time.
const AT_A_TIME: usize = 32;

/// Holds connections until standard input ends.
pub(super) fn run(target: &Target) -> anyhow::Result<()> {
    let opener = Opener::new(target, Units::of(target.transport))?;
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let mut numbers = line.split_whitespace().map(str::parse);
            if let (Some(Ok(first)), Some(Ok(count))) = (numbers.next(), numbers.next()) {
                let _ = sender.send((first, count));
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(obey(&opener, orders))
}

async fn obey(
    opener: &Arc<Opener>,
    mut orders: mpsc::UnboundedReceiver<(u64, u64)>,
) -> anyhow::Result<()> {
    let open = Arc::new(AtomicU64::new(0));
    while let Some((first, count)) = orders.recv().await {
        let failures = add(opener, first, count, &open).await;
        let reason = failures.front().map(ToString::to_string);
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{} {} {}",
            open.load(Ordering::Relaxed),
            failures.len(),
            reason.unwrap_or_default()
        )?;
        out.flush()?;
    }
    Ok(())
}

/// Opens the connections of `count` users and lets their phones respond. Returns the failures.
async fn add(
    opener: &Arc<Opener>,
    first: u64,
    count: u64,
    open: &Arc<AtomicU64>,
) -> VecDeque<anyhow::Error> {
    let mut users = first..first + count;
    let mut opening = JoinSet::new();
    let mut failures = VecDeque::new();
    loop {
        while opening.len() < AT_A_TIME
            && let Some(user) = users.next()
        {
            let opener = Arc::clone(opener);
            opening.spawn(async move { (user, enlist(&opener, user).await) });
        }
        match opening.join_next().await {
            None => return failures,
            Some(Ok((user, Ok(client)))) => {
                open.fetch_add(1, Ordering::Relaxed);
                let open = Arc::clone(open);
                tokio::spawn(async move {
                    // However it ends, one connection fewer is open.
                    let _ = serve(client, user).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Some(Ok((_, Err(error)))) => failures.push_back(error),
            Some(Err(error)) => failures.push_back(anyhow!(error)),
        }
    }
}
