//! `tandem ctl`: calls a method of a running server over its admin interface and prints the result.
use crate::configuration_file::ConfigurationFile;
use crate::output::{complain, show};
use serde_json::{Map, Value, json};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tandem_http::Token;

/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes.
const LONGEST_ANSWER: u64 = 256 << 20;

/// The method, its parameters and the server.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Method, such as `node.status`; `rpc.methods` lists all methods.
    method: String,
    /// Parameters: one `key=value` each, or a single JSON object with all of them.
    #[arg(value_name = "PARAMS")]
    params: Vec<String>,
    /// Admin URL of the server, such as `http://127.0.0.1:8060` (default: `admin.listen` of the configuration).
    #[arg(long, conflicts_with = "config")]
    url: Option<String>,
    /// File with the server's admin token (default: `admin.token_file` of the configuration).
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Unix socket of the server's admin interface (default: `admin.socket` of the configuration, if set).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "config", "token_file"])]
    socket: Option<PathBuf>,
    #[command(flatten)]
    file: ConfigurationFile,
}

/// Calls the method and prints the result as JSON; fails with the server's error.
pub fn run(arguments: &Arguments) -> ExitCode {
    match ask(arguments) {
        Ok(result) => show(&format!("{result:#}\n")),
        Err(problem) => complain(problem),
    }
}

/// How to reach a server's admin interface.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// Over HTTP: the URL without a path, and the token if one is required.
    Http {
        /// For example `http://127.0.0.1:8060`.
        url: String,
        /// Token that clients must send.
        token: Option<String>,
    },
    /// Over its Unix socket.
    Socket(PathBuf),
}

impl std::fmt::Debug for Access {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.shown()) // Without the token.
    }
}

impl Access {
    /// Access over HTTP, without a token.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http {
            url: url.into(),
            token: None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Http { url, .. } => url.clone(),
            Self::Socket(path) => path.display().to_string(),
        }
    }

    fn of(arguments: &Arguments) -> Result<Self, String> {
        let read = |file: &Path| Token::read_text(file).map_err(|error| error.to_string());
        let token = arguments.token_file.as_deref().map(read).transpose()?;
        if let Some(path) = &arguments.socket {
            return Ok(Self::Socket(path.clone()));
        }
        if let Some(url) = &arguments.url {
            let url = url.trim_end_matches('/').to_owned();
            return Ok(Self::Http { url, token });
        }
        let configuration = arguments
            .file
            .load()
            .map_err(|mistakes| mistakes.to_string())?;
        let admin = configuration.admin;
        if let Some(path) = admin.socket {
            return Ok(Self::Socket(path.0));
        }
        let configured = admin.token_file.filter(|_| token.is_none());
        let configured = configured.map(|file| read(&file.0)).transpose()?;
        Ok(Self::Http {
            url: format!("http://{}", reachable(admin.listen)),
            token: token.or(configured),
        })
    }
}

fn ask(arguments: &Arguments) -> Result<Value, String> {
    let params = params(&arguments.params)?;
    call(&Access::of(arguments)?, &arguments.method, &params)
}

/// Returns the result of one JSON-RPC call.
///
/// # Errors
/// What went wrong and how to fix it, for people.
pub fn call(access: &Access, method: &str, params: &Value) -> Result<Value, String> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, body) = match access {
        Access::Http { url, token } => post(url, token.as_deref(), &request.to_string())?,
        Access::Socket(path) => post_locally(path, &request.to_string()).map_err(|error| {
            format!(
                "cannot reach the server at {}: {error}. Check that it runs, as this user, and that this is its `admin.socket`",
                path.display()
            )
        })?,
    };
    let server = access.shown();
    if status == 401 {
        return Err(format!(
            "{server} requires a token, but it is missing or wrong: give its file with --token-file"
        ));
    }
    let answer: Value = serde_json::from_str(&body).map_err(|_| {
        format!(
            "{server} answers {status}, but not like Tandem's admin interface: check the address"
        )
    })?;
    match (answer.get("result"), answer.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (_, Some(Value::String(refusal))) => Err(format!("{server} answers {status}: {refusal}")),
        (_, Some(error)) => Err(refused(method, error)),
        _ => Err(format!(
            "{server} answers {status} without a result: {body}"
        )),
    }
}

/// Sends a request over HTTP; returns status and body.
fn post(url: &str, token: Option<&str>, request: &str) -> Result<(u16, String), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into();
    let mut post = agent
        .post(format!("{url}/rpc"))
        .header("content-type", "application/json");
    if let Some(token) = token {
        post = post.header("authorization", format!("Bearer {token}"));
    }
    let mut response = post
        .send(request)
        .map_err(|error| unreachable_server(url, &error))?;
    let status = response.status().as_u16();
    let body = response
        .body_mut()
        .with_config()
        .limit(LONGEST_ANSWER)
        .read_to_string()
        .map_err(|error| format!("the response of {url} is incomplete: {error}"))?;
    Ok((status, body))
}

/// The same over a Unix socket, which the HTTP client does not support. HTTP/1.0: the end of the connection ends the body.
fn post_locally(socket: &Path, request: &str) -> std::io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST /rpc HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{request}",
        request.len()
    )?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    });
    parts.ok_or_else(|| std::io::Error::other("the response is not HTTP"))
}

fn unreachable_server(url: &str, error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            format!(
                "cannot reach the server at {url}: connection refused. Check that it runs and that this is its `admin.listen`"
            )
        }
        ureq::Error::Timeout(_) => format!(
            "the server at {url} did not answer within {} seconds",
            PATIENCE.as_secs()
        ),
        other => format!("cannot reach the server at {url}: {other}"),
    }
}

/// An error of the server, with its detail lines.
fn refused(method: &str, error: &Value) -> String {
    let message = error
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("the server gives no reason");
    let mut text = format!("{method}: {message}");
    for detail in error
        .get("data")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        text.push_str("\n  ");
        text.push_str(detail.as_str().unwrap_or(&detail.to_string()));
    }
    text
}

/// Parameters from the command line: one JSON object, or `key=value` pairs whose values may be JSON.
fn params(given: &[String]) -> Result<Value, String> {
    if let [only] = given
        && only.trim_start().starts_with(['{', '['])
    {
        return serde_json::from_str(only)
            .map_err(|error| format!("the parameters are not JSON: {error}"));
    }
    let mut params = Map::new();
    for pair in given {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            format!("`{pair}` is not a parameter: write key=value, or a single JSON object")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        params.insert(key.to_owned(), value);
    }
    Ok(Value::Object(params))
}

/// The address at which a client on this machine reaches a server that listens on `listen`.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Result<Value, String> {
        params(
            &given
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn parameters_are_pairs_or_one_object() {
        assert_eq!(read(&[]), Ok(json!({})));
        assert_eq!(
            read(&["limit=5", "after=a@b", "on=true"]),
            Ok(json!({ "limit": 5, "after": "a@b", "on": true }))
        );
        assert_eq!(read(&[r#"{"limit": 5}"#]), Ok(json!({ "limit": 5 })));
        assert!(read(&["limit"]).is_err_and(|problem| problem.contains("key=value")));
        assert!(read(&["{limit}"]).is_err_and(|problem| problem.contains("not JSON")));
    }

    #[test]
    fn a_wildcard_is_reached_over_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8060", "127.0.0.1:8060"),
            ("[::]:8060", "[::1]:8060"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(
                reachable(listen.parse().expect("an address")).to_string(),
                reached
            );
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_named_with_its_address() {
        // Bound and dropped, so connections are refused.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port");
        let problem = call(
            &Access::http(format!("http://{port}")),
            "node.status",
            &json!({}),
        )
        .expect_err("no server");
        assert_eq!(
            problem,
            format!(
                "cannot reach the server at http://{port}: connection refused. Check that it runs and that this is its `admin.listen`"
            )
        );
    }
}
