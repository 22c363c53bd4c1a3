//! The `--config` option that several commands share.
use crate::config::{self, Configuration, Mistakes};
use std::path::{Path, PathBuf};

/// The option for the configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigurationFile {
    /// Configuration file (TOML); without it, every key has its default.
    #[arg(long, short, value_name = "FILE", global = true, env = "TANDEM_CONFIG")]
    pub config: Option<PathBuf>,
}

impl ConfigurationFile {
    /// Reads the file, or returns the defaults if there is no file.
    ///
    /// # Errors
    /// All errors in the file.
    pub fn load(&self) -> Result<Configuration, Mistakes> {
        config::load(self.path())
    }

    /// Reads the file for a command that needs only the keys of the admin interface. Prints a note if other keys are wrong.
    ///
    /// # Errors
    /// As [`config::load_for_admin`].
    pub fn load_for_admin(&self) -> Result<Configuration, Mistakes> {
        let (configuration, mistakes) = config::load_for_admin(self.path())?;
        if let Some(mistakes) = mistakes {
            eprintln!(
                "tandem: note: {} has mistakes, which `tandem check` lists; the running server is not affected",
                mistakes.file
            );
        }
        Ok(configuration)
    }

    /// Path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}
