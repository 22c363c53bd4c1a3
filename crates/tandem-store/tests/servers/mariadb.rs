//! A MariaDB server for tests. The user `tandem` has the password `secret` and all rights; `locked` has a password that no test knows.

use crate::process::{
    Process, as_user, await_connection, directory, execute, free_port, run, text,
};
use sqlx::MySqlConnection;
use std::path::PathBuf;

const USER: &str = "mysql";
/// Not in the path of most users.
const PROGRAM: &str = "/usr/sbin/mariadbd";
/// Runs at each start.
const USERS: &str = "CREATE USER IF NOT EXISTS 'tandem'@'%' IDENTIFIED BY 'secret';\n\
    GRANT ALL ON *.* TO 'tandem'@'%' WITH GRANT OPTION;\n\
    CREATE USER IF NOT EXISTS 'locked'@'%' IDENTIFIED BY 'unknown';\n";

/// A server, which may be stopped and started again.
pub struct Server {
    directory: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Server {
    /// Makes the files of a server and starts it. They are removed when this process ends.
    pub fn new() -> Self {
        let directory = directory(USER);
        let mut words = as_user(USER);
        words.extend(["mariadb-install-db", "--no-defaults", "--skip-test-db"].map(str::to_owned));
        words.push(format!("--datadir={}", text(&directory.join("data"))));
        run(&words);
        std::fs::write(directory.join("users.sql"), USERS).expect("written");
        let mut server = Self {
            directory,
            port: free_port(),
            process: None,
        };
        server.start();
        server
    }

    /// Starts the server and waits until it answers.
    pub fn start(&mut self) {
        let mut words = as_user(USER);
        words.extend([PROGRAM, "--no-defaults", "--bind-address=127.0.0.1"].map(str::to_owned));
        words.push(format!("--port={}", self.port));
        for (option, file) in [
            ("datadir", "data"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("init-file", "users.sql"),
        ] {
            words.push(format!("--{option}={}", text(&self.directory.join(file))));
        }
        // The machine will not stop, and the data may be lost.
        words.push("--innodb-flush-log-at-trx-commit=0".to_owned());
        words.push("--max-connections=300".to_owned());
        self.process = Some(Process::start(&self.directory, "TERM", &words));
        let url = self.url("tandem:secret", "mysql");
        await_connection::<MySqlConnection>(url);
    }

    /// Stops the server, which ends all connections. Its data stay.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop("TERM");
        }
    }

    /// The URL of a database for a user, with or without a password.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL in a database, with all rights.
    pub fn execute(&self, database: &str, sql: &str) {
        let url = self.url("tandem:secret", database);
        execute::<MySqlConnection>(url, sql.to_owned());
    }
}
