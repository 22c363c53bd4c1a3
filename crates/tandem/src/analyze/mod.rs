//! `tandem analyze`: captures packets or reads a file, serves metrics meanwhile, and prints the report.

mod metrics;

use crate::output::{complain, show};
use metrics::Page;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_analyzer::Arguments;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    analyze(arguments).unwrap_or_else(complain)
}

fn analyze(arguments: &Arguments) -> anyhow::Result<ExitCode> {
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
            eprintln!("capturing; press Ctrl-C to stop and print the summary");
        }
        if arguments.metrics.is_some() {
            page.renew(analysis);
        }
    })?;
    // Does not wait for a scrape in progress.
    runtime.shutdown_background();
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.to_string()
    };
    Ok(show(&text))
}

/// The first SIGINT or SIGTERM stops the capture and prints the summary; the second one ends the program.
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
