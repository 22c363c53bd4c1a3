//! `tandem lab scenario`: generates, validates and plots scenario files.

use super::output;
use crate::output::show;
use anyhow::anyhow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tandem_lab::scenario::{
    self, GenerateArguments, PlotArguments, ScenarioCommand, ValidateArguments,
};

/// Fails if a scenario has an error.
pub(super) fn run(command: &ScenarioCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScenarioCommand::Generate(arguments) => generate(arguments),
        ScenarioCommand::Validate(arguments) => validate(arguments),
        ScenarioCommand::Plot(arguments) => plot(arguments),
    }
}

fn generate(arguments: &GenerateArguments) -> anyhow::Result<ExitCode> {
    let generator = arguments.generator().map_err(anyhow::Error::msg)?;
    let digits = arguments.digits();
    let Some(path) = &arguments.output else {
        let mut output = BufWriter::new(io::stdout().lock());
        let written = scenario::write(&mut output, digits, generator).and_then(|_| output.flush());
        return match written {
            // The reader has closed the pipe early.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            written => Ok(written.map(|()| ExitCode::SUCCESS)?),
        };
    };
    let written = File::create(path).and_then(|file| {
        let mut output = BufWriter::new(file);
        let calls = scenario::write(&mut output, digits, generator)?;
        output.flush().map(|()| calls)
    });
    let calls = written.map_err(|error| output::unwritable(path, &error))?;
    Ok(show(&format!("{}: {calls} calls\n", path.display())))
}

fn validate(arguments: &ValidateArguments) -> anyhow::Result<ExitCode> {
    let name = display_name(&arguments.file);
    let reader = scenario::read(open(&arguments.file)?);
    let verdict = scenario::validate(reader, &arguments.rules())
        .map_err(|error| anyhow!("{name}: {error}"))?;
    for mistake in &verdict.mistakes.first {
        eprintln!("{name}:{mistake}");
    }
    if verdict.mistakes.more > 0 {
        eprintln!("{name}: and {} more errors", verdict.mistakes.more);
    }
    let shown = show(&format!("{name}: {verdict}\n"));
    Ok(if verdict.mistakes.is_empty() {
        shown
    } else {
        ExitCode::FAILURE
    })
}

fn plot(arguments: &PlotArguments) -> anyhow::Result<ExitCode> {
    let name = display_name(&arguments.file);
    let reader = scenario::read(open(&arguments.file)?);
    let svg = scenario::plot(reader, &name).map_err(|error| anyhow!("{name}:{error}"))?;
    let Some(path) = &arguments.output else {
        return Ok(show(&svg));
    };
    output::write(path, &svg)?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let name = path.display();
    let failed = |error| anyhow!("{name} cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(anyhow!("{name} is a directory; name a scenario file"));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}
