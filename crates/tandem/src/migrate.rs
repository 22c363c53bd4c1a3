//! `tandem migrate`: brings the tables of the database up to date, so that an upgrade learns of a problem before it replaces servers.

use crate::configuration_file::ConfigurationFile;
use crate::output::complain;
use anyhow::{Context as _, bail};
use std::io::{Write as _, stdout};
use std::process::ExitCode;
use tandem_store::Store;

/// Runs the command on the configured database. The exit code is 0 for success, 1 for failure.
pub fn run(file: &ConfigurationFile) -> ExitCode {
    match migrate(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => complain(format_args!("{problem:#}")),
    }
}

fn migrate(file: &ConfigurationFile) -> anyhow::Result<()> {
    let configuration = file.load()?;
    if configuration.kamailio().is_some() {
        bail!("`database.schema = \"kamailio\"`: Tandem only reads the database of Kamailio");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot create an event loop")?;
    runtime.block_on(async {
        let store = Store::open(&configuration.database.url.0).await?;
        let url = store.url();
        let done = if store.created() {
            format!("created the tables of the database {url}")
        } else {
            format!("the tables of the database {url} are up to date")
        };
        writeln!(stdout(), "{done}")?;
        store.close().await;
        Ok(())
    })
}
