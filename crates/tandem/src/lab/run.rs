//! `tandem lab run`: runs the load, prints the report and writes it to the requested files.

use super::output::{self, write};
use crate::output::show;
use std::process::ExitCode;
use tandem_lab::interrupt::Interrupt;
use tandem_lab::run::{self, Arguments};

/// Fails if a unit of work failed or the figures are not reliable.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let what = arguments.run()?;
    let wanted = arguments.traffic();
    let files = [&wanted.json, &arguments.csv, &wanted.html];
    output::check(files.into_iter().flatten())?;
    let report = run::run(&what, &Interrupt::on_signals()?, |progress| {
        if !wanted.quiet {
            eprintln!("{progress}");
        }
    })?;
    let json = || serde_json::to_string_pretty(&report);
    if let Some(path) = &wanted.json {
        write(path, &json()?)?;
    }
    if let Some(path) = &arguments.csv {
        write(path, &report.csv())?;
    }
    if let Some(path) = &wanted.html {
        write(path, &report.html())?;
    }
    let printed = show(&report.to_string());
    Ok(if report.is_clean() && report.doubts.is_empty() {
        printed
    } else {
        ExitCode::FAILURE
    })
}
