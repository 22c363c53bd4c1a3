//! `tandem man`: writes a manual page for each command. The pages contain the text of `--help`.
use crate::output::{complain, show};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the pages go.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory for the pages, such as tandem-serve.1; created if it does not exist.
    #[arg(long, short, value_name = "DIRECTORY")]
    output: PathBuf,
}

/// Writes the pages of the program whose command line is `program`.
pub fn run(arguments: &Arguments, mut program: Command) -> ExitCode {
    let folder = &arguments.output;
    let version = program.get_version().unwrap_or_default();
    let source = format!("{} {version}", program.get_name());
    // Fills in the names of the subcommands and the options that they inherit.
    program.build();
    let written =
        fs::create_dir_all(folder).and_then(|()| write_with_subcommands(&program, &source, folder));
    match written {
        Ok(count) => show(&format!("{count} pages in {}\n", folder.display())),
        Err(error) => complain(format!(
            "cannot write the manual pages to {}: {error}",
            folder.display()
        )),
    }
}

/// Returns the number of pages.
fn write_with_subcommands(command: &Command, source: &str, folder: &Path) -> io::Result<usize> {
    let page = Man::new(command.clone())
        .source(source)
        .manual("Tandem Manual");
    fs::write(folder.join(page.get_filename()), text(command, &page)?)?;
    visible_subcommands(command).try_fold(1, |count, subcommand| {
        Ok(count + write_with_subcommands(subcommand, source, folder)?)
    })
}

/// The page. `clap_mangen` on its own would fill the lines of the examples into one paragraph.
fn text(command: &Command, page: &Man) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if visible_subcommands(command).next().is_some() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(examples) = command.get_after_help() {
        render_examples(&examples.to_string(), &mut text)?;
    }
    Ok(text)
}

/// A heading with a colon, then one example per line.
fn render_examples(examples: &str, page: &mut impl Write) -> io::Result<()> {
    let mut roff = Roff::new();
    let mut lines = examples.lines();
    let heading = lines.next().unwrap_or_default().trim_end_matches(':');
    roff.control("SH", [heading.to_uppercase().as_str()]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line.trim())]);
    }
    roff.control("fi", []);
    roff.to_writer(page)
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
}
