//! A database server in a directory of its own, on a free port. It ends with this process, however that ends.

use sqlx::{AssertSqlSafe, Connection, Executor};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Starts the server, waits for the name of a signal or the end of standard input, and stops the server. If there was no name, the directory
/// is removed. KILL ends all its processes at once: a process that is stopped neither starts others nor tells them anything.
const SUPERVISOR: &str = r#"
directory=$1; signal=$2; shift 2
"$@" & server=$!
read -r order
if [ "$order" = KILL ]; then
    kill -STOP "$server"
    kill -KILL "$server" $(cat "/proc/$server/task/$server/children")
else
    kill "-${order:-$signal}" "$server"
fi
wait "$server"
[ -n "$order" ] || rm -rf "$directory"
"#;

/// The process of a server. When it is dropped, or this process ends, the server stops and its directory is removed.
pub struct Process(Child);

impl Process {
    /// Starts a command, which the named signal ends.
    pub fn start(directory: &Path, signal: &str, command: &[String]) -> Self {
        let child = Command::new("bash")
            .args(["-c", SUPERVISOR, "supervisor", &text(directory), signal])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("bash starts"))
    }

    /// Stops the server with a signal, waits for its end, and keeps its directory.
    pub fn stop(mut self, signal: &str) {
        let mut input = self.0.stdin.take().expect("a pipe");
        writeln!(input, "{signal}").expect("the supervisor reads");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("the supervisor ends");
    }
}

/// An empty directory that the user of the server owns. Servers refuse to run as root.
pub fn directory(user: &str) -> PathBuf {
    let directory = TempDir::with_prefix("tandem-server-")
        .expect("a directory")
        .keep();
    if is_root() {
        run(&["chown".to_owned(), user.to_owned(), text(&directory)]);
    }
    directory
}

/// The words before a command that is to run as the user of the server.
pub fn as_user(user: &str) -> Vec<String> {
    if !is_root() {
        return Vec::new();
    }
    [
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Runs a command, which must succeed.
pub fn run(words: &[String]) {
    let [program, arguments @ ..] = words else {
        return;
    };
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}; run scripts/setup test"));
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A port of 127.0.0.1 that nothing uses.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Waits until a server accepts connections.
pub fn await_connection<C: Connection>(url: String) {
    let deadline = Instant::now() + Duration::from_secs(30);
    block_on(async move || {
        while let Err(error) = C::connect(&url).await {
            assert!(Instant::now() < deadline, "no server at {url}: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// Runs SQL on a connection of its own.
pub fn execute<C: Connection>(url: String, sql: String)
where
    for<'c> &'c mut C: Executor<'c>,
{
    block_on(async move || {
        let mut connection = C::connect(&url).await.expect("connects");
        let done = connection.execute(AssertSqlSafe(sql)).await;
        done.expect("executes");
    });
}

/// Runs asynchronous work on a thread of its own, for callers that may run on a runtime.
fn block_on(work: impl AsyncFnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(work());
    });
    thread.join().expect("the work does not panic");
}

/// A path as a word of a command.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

fn is_root() -> bool {
    let mut status = String::new();
    std::fs::File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status))
        .expect("Linux");
    status.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("Uid:") && words.nth(1) == Some("0")
    })
}
