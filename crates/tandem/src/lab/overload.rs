//! `tandem lab overload`: measures, prints the report and writes it to the requested files.

use super::capacity::beside;
use super::output::{self, write};
use crate::output::show;
use std::process::ExitCode;
use tandem_lab::interrupt::Interrupt;
use tandem_lab::overload::{self, Arguments, Report};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let what = arguments.overload()?;
    let others: Vec<Report> = beside(arguments.beside(), |text| serde_json::from_str(text))?;
    let wanted = arguments.traffic();
    output::check([&wanted.json, &wanted.html].into_iter().flatten())?;
    let report = overload::measure(&what, &Interrupt::on_signals()?, |line| {
        if !wanted.quiet {
            eprintln!("{line}");
        }
    })?;
    if let Some(path) = &wanted.json {
        let json = serde_json::to_string_pretty(&report)?;
        write(path, &json)?;
    }
    if let Some(path) = &wanted.html {
        write(path, &report.html(&others))?;
    }
    let all = others.iter().chain([&report]);
    let texts: Vec<String> = all.map(Report::to_string).collect();
    Ok(show(&texts.join("\n")))
}
