//! `tandem lab capacity`: runs the search, prints the report and writes it to the requested files.

use super::output::{self, write};
use crate::output::show;
use anyhow::anyhow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_lab::capacity::{self, Arguments, Report, Trial};
use tandem_lab::interrupt::Interrupt;

/// Fails if no rate met the objective.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let capacity = arguments.capacity()?;
    let others: Vec<Report> = beside(&arguments.beside, |text| serde_json::from_str(text))?;
    let wanted = arguments.traffic();
    output::check([&wanted.json, &wanted.html].into_iter().flatten())?;
    let report = capacity::find(&capacity, &Interrupt::on_signals()?, |trial: &Trial| {
        if !wanted.quiet {
            eprintln!("{trial}");
        }
    })?;
    if let Some(path) = &wanted.json {
        let json = serde_json::to_string_pretty(&report)?;
        write(path, &json)?;
    }
    if let Some(path) = &wanted.html {
        write(path, &report.html(&others))?;
    }
    let texts: Vec<String> = others
        .iter()
        .chain([&report])
        .map(Report::to_string)
        .collect();
    let printed = show(&texts.join("\n"));
    Ok(match report.capacity {
        Some(_) => printed,
        None => ExitCode::FAILURE,
    })
}

/// Reads the reports of other servers.
pub(super) fn beside<R>(
    paths: &[PathBuf],
    parse: impl Fn(&str) -> serde_json::Result<R>,
) -> anyhow::Result<Vec<R>> {
    paths.iter().map(|path| read(path, &parse)).collect()
}

fn read<R>(path: &Path, parse: impl Fn(&str) -> serde_json::Result<R>) -> anyhow::Result<R> {
    let wrong = |error: &dyn std::fmt::Display| anyhow!("--beside {}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    parse(&text).map_err(|error| wrong(&error))
}
