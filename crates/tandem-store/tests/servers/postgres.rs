//! A PostgreSQL server for tests. The user `locked` has a password that no test knows; the other users need none.

use crate::process::{
    Process, as_user, await_connection, directory, execute, free_port, run, text,
};
use sqlx::PgConnection;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

const USER: &str = "postgres";
/// Who may connect, and how.
const ACCESS: &str = "host all locked samenet scram-sha-256\nhost all all samenet trust\n";

/// A server, which may be stopped and started again.
pub struct Server {
    /// Before the command that starts it.
    prefix: Vec<String>,
    address: IpAddr,
    directory: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Server {
    /// Makes the files of a server and starts it. They are removed when this process ends.
    pub fn new() -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), Vec::new())
    }

    /// Like [`Server::new`], on a machine with this address, where commands run with these words before them.
    pub fn on(address: IpAddr, prefix: Vec<String>) -> Self {
        let directory = directory(USER);
        let mut words = as_user(USER);
        words.extend([
            program("initdb"),
            "-D".to_owned(),
            text(&directory.join("data")),
        ]);
        words.extend(
            ["-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C"].map(str::to_owned),
        );
        run(&words);
        std::fs::write(directory.join("data/pg_hba.conf"), ACCESS).expect("written");
        let mut server = Self {
            prefix,
            address,
            directory,
            port: free_port(),
            process: None,
        };
        server.start();
        server.execute("postgres", "CREATE ROLE locked LOGIN PASSWORD 'unknown'");
        server
    }

    /// Starts the server and waits until it answers.
    pub fn start(&mut self) {
        let mut words = self.prefix.clone();
        words.extend(as_user(USER));
        words.extend([
            program("postgres"),
            "-D".to_owned(),
            text(&self.directory.join("data")),
        ]);
        for setting in [
            &format!("listen_addresses={}", self.address),
            &format!("port={}", self.port),
            "unix_socket_directories=",
            "max_connections=300",
            // The machine will not stop, and the data may be lost.
            "fsync=off",
        ] {
            words.extend(["-c".to_owned(), setting.to_owned()]);
        }
        self.process = Some(Process::start(&self.directory, "INT", &words));
        let url = self.url("postgres", "postgres");
        await_connection::<PgConnection>(url);
    }

    /// Kills all processes of the server, as in a crash of its machine. What is committed stays: the next start recovers it.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop("KILL");
        }
    }

    /// The URL of a database for a user.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!(
            "postgres://{user}@{}:{}/{database}",
            self.address, self.port
        )
    }

    /// Runs SQL in a database, as the superuser.
    pub fn execute(&self, database: &str, sql: &str) {
        let url = self.url(USER, database);
        execute::<PgConnection>(url, sql.to_owned());
    }
}

/// Debian keeps the server's programs apart, one directory for each version.
fn program(name: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let files = versions
        .flatten()
        .map(|version| version.path().join("bin").join(name));
    let newest = files.filter(|file| file.exists()).max();
    newest.map_or_else(|| name.to_owned(), |file| text(&file))
}
