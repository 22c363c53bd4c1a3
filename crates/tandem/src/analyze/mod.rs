//! `tandem analyze`: captures or reads, tells Prometheus meanwhile, and prints what was found.

mod metrics;

use crate::cli::{complain, show};
use metrics::Page;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_analyzer::Arguments;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Does it.
pub fn run(arguments: &Arguments) -> ExitCode {
    analyze(arguments).unwrap_or_else(complain)
}

fn analyze(arguments: &Arguments) -> io::Result<ExitCode> {
    let plan = arguments.plan()?;
    let runtime = Runtime::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let page = Page::default();
    {
        let _guard = runtime.enter();
        end_by_signal(&stop)?;
        if let Some(address) = arguments.metrics {
            runtime.block_on(page.serve(address))?;
        }
    }
    let mut is_told = false;
    let report = tandem_analyzer::analyze(&plan, &stop, |analysis| {
        if !std::mem::replace(&mut is_told, true) {
            eprintln!("capturing; Ctrl-C ends it with a summary");
        }
        if arguments.metrics.is_some() {
            page.renew(analysis);
        }
    })?;
    // Whoever scrapes now is not waited for.
    runtime.shutdown_background();
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).map_err(io::Error::other)? + "\n"
    } else {
        report.to_string()
    };
    Ok(show(&text))
}

/// The first SIGINT or SIGTERM ends the capture, with a summary; the second one ends the program.
fn end_by_signal(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)?;
        let stop = Arc::clone(stop);
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(1);
                }
            }
        });
    }
    Ok(())
}
