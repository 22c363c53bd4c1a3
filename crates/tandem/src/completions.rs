//! `tandem completions`: prints the completion script of a shell.
use crate::output::show;
use clap::Command;
use clap_complete::Shell;
use std::process::ExitCode;

/// The shell that reads the script.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Shell that reads the script.
    shell: Shell,
}

/// Prints the script for the program whose command line is `program`.
pub fn run(arguments: &Arguments, mut program: Command) -> ExitCode {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    show(&String::from_utf8_lossy(&script))
}
