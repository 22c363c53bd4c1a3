//! A server with a recipe. Its gateways are agents in this process, and its addresses for documentation become addresses of loopback;
//! nothing else of the recipe changes.
use super::common::{PATIENCE, text};
use sip_stack::{Agent, Call, CallEnd, IncomingCall, ReceivedMessage};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tandem::serve::Server;
use tandem_store::{Store, StoredCredentials, Subscriber};
use tempfile::TempDir;

const RECIPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/routing");

/// The password of all phones.
const PASSWORD: &str = "secret";

/// How the addresses in the recipes begin, and how those that stand for them do.
const NETWORKS: [(&str, &str); 4] = [
    ("192.0.2.", "127.192.2."),
    ("198.51.100.", "127.198.51."),
    ("203.0.113.", "127.203.113."),
    ("\"10.0.0.", "\"127.10.0."),
];

/// What the server has besides the recipe.
const BASE: &str = "
[[listen]]
transport = \"udp\"
address = \"127.0.0.1:0\"
[[listen]]
transport = \"tcp\"
address = \"127.0.0.1:0\"
[workers]
count = 2
[admin]
listen = \"127.0.0.1:0\"
";

/// A running recipe.
pub struct Recipe {
    pub directory: TempDir,
    database: String,
    domain: &'static str,
    pub server: Server,
    gateways: Vec<(String, Agent)>,
}

impl Recipe {
    /// Starts a server with a recipe for the domain `example.org`.
    pub async fn start(name: &str) -> Self {
        Self::start_without(name, "example.org", &[], "").await
    }

    /// Starts a server with a recipe for this domain. There is nothing at the addresses of the gateways in `dead`. `more` is added to the
    /// configuration.
    pub async fn start_without(
        name: &str,
        domain: &'static str,
        dead: &[&str],
        more: &str,
    ) -> Self {
        let recipe = std::fs::read_to_string(format!("{RECIPES}/{name}.toml")).expect("a recipe");
        let directory = tempfile::tempdir().expect("a directory");
        let database = format!("sqlite:{}", directory.path().join("tandem.db").display());
        let storage = format!("[database]\nurl = \"{database}\"\n");
        let recipe = format!("{recipe}{BASE}{storage}{more}");
        Self::run(&recipe, (directory, database), domain, dead).await
    }

    /// Starts a server with a configuration whose database this is. There is nothing at the addresses of the gateways in `dead`.
    pub async fn run(
        configuration: &str,
        (directory, database): (TempDir, String),
        domain: &'static str,
        dead: &[&str],
    ) -> Self {
        let (configuration, gateways) = on_loopback(configuration, dead);
        let file = directory.path().join("tandem.toml");
        std::fs::write(&file, configuration).expect("written");
        let configuration = tandem::config::load(Some(&file)).expect("a valid recipe");
        let server = Server::start(Some(file), configuration, None).await;
        Self {
            server: server.expect("the server starts"),
            directory,
            database,
            domain,
            gateways,
        }
    }

    /// The agent that stands for a gateway.
    pub fn gateway(&self, name: &str) -> &Agent {
        let found = self.gateways.iter().find(|(known, _)| known == name);
        &found.expect("a live gateway of the recipe").1
    }

    /// The phone of a new subscriber.
    pub async fn phone(&self, name: &str) -> Agent {
        self.phone_at(name, "127.0.0.1").await
    }

    /// The phone of a new subscriber at an address of the recipe.
    pub async fn phone_at(&self, name: &str, address: &str) -> Agent {
        self.subscribe(name).await;
        let agent = Agent::builder(&format!("sip:{name}@{}", self.domain));
        let agent = agent.credentials(name, PASSWORD).proxy(&self.proxy());
        let listener = format!("udp:{}:0", loopback(address));
        agent.bind(&listener).start().expect("a phone")
    }

    /// A caller at an address of the recipe, without a password.
    pub fn peer(&self, from: &str, address: &str) -> Agent {
        let agent = Agent::builder(from).proxy(&self.proxy());
        let listener = format!("udp:{}:0", loopback(address));
        agent.bind(&listener).start().expect("an agent")
    }

    async fn subscribe(&self, name: &str) {
        use sip_message::digest::{ha1_md5, ha1_sha256};
        let (user, realm) = (name.as_bytes(), self.domain.as_bytes());
        let subscriber = Subscriber {
            username: name.to_owned(),
            domain: self.domain.to_owned(),
            credentials: StoredCredentials {
                ha1_md5: ha1_md5(user, realm, PASSWORD.as_bytes()),
                ha1_sha256: ha1_sha256(user, realm, PASSWORD.as_bytes()),
            },
        };
        let store = Store::open(&self.database).await;
        let store = store.expect("the database opens");
        store.subscribers().add(&subscriber).await.expect("added");
        store.close().await;
    }

    fn proxy(&self) -> String {
        let address = self.server.running().listeners[0].address;
        format!("sip:{address};transport=udp")
    }
}

/// The address that stands for an address of the recipes.
pub fn loopback(address: &str) -> String {
    let quoted = format!("\"{address}");
    let replaced = NETWORKS
        .iter()
        .fold(quoted, |text, (from, to)| text.replace(from, to));
    replaced.trim_start_matches('"').to_owned()
}

/// The recipe with addresses of loopback, and an agent for each gateway that is not dead.
fn on_loopback(recipe: &str, dead: &[&str]) -> (String, Vec<(String, Agent)>) {
    let mut gateways = Vec::new();
    let mut lines = String::new();
    let mut name = "";
    for line in recipe.lines() {
        let value = |key: &str| line.strip_prefix(key)?.trim().strip_suffix('"');
        name = value("name = \"").unwrap_or(name);
        let Some(destination) = value("destination = \"sip:") else {
            let networks = NETWORKS.iter();
            let line = networks.fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
            let _ = writeln!(lines, "{}", relative_to_recipes(&line));
            continue;
        };
        let (agent, destination) = gateway(destination);
        let _ = writeln!(lines, "destination = \"{destination}\"");
        if !dead.contains(&name) {
            gateways.push((name.to_owned(), agent));
        }
    }
    (lines, gateways)
}

/// A line whose relative file is one beside the recipes.
fn relative_to_recipes(line: &str) -> String {
    match line.strip_prefix("file = \"") {
        Some(file) if !file.starts_with('/') => format!("file = \"{RECIPES}/{file}"),
        _ => line.to_owned(),
    }
}

/// Starts an agent for a destination without its scheme. Returns the URI that leads there.
fn gateway(destination: &str) -> (Agent, String) {
    let (place, transport) = match destination.split_once(";transport=") {
        Some((place, transport)) => (place, transport),
        None => (destination, "udp"),
    };
    let host = loopback(place.split(':').next().unwrap_or_default());
    let agent = Agent::builder("sip:gateway@gateway.example")
        .bind(&format!("{transport}:{host}:0"))
        .start()
        .expect("a gateway");
    let address = agent.listeners()[0].address;
    (agent, format!("sip:{address};transport={transport}"))
}

/// A call as a gateway or a phone has received it.
pub struct Taken {
    invite: ReceivedMessage,
    /// Ends when it is dropped.
    _call: Call,
}

impl Taken {
    /// The Request-URI.
    pub fn request_uri(&self) -> String {
        text(self.invite.message().request_uri())
    }

    /// The user of the Request-URI.
    pub fn user(&self) -> String {
        let message = self.invite.message();
        let user = message.uri().and_then(|uri| uri.user).unwrap_or_default();
        text(user)
    }

    /// Whether the INVITE has this line.
    pub fn has_line(&self, line: &str) -> bool {
        let message = self.invite.message();
        text(message.bytes()).lines().any(|it| it == line)
    }
}

/// Waits for a call at a gateway or a phone, and answers it.
pub fn take(callee: &Agent) -> Taken {
    answer(callee.incoming(PATIENCE).expect("a call comes"))
}

/// Waits for a call at one of these, and answers it. Returns which one it was.
pub fn take_one(callees: [&Agent; 2]) -> (usize, Taken) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (number, callee) in callees.iter().enumerate() {
            if let Some(incoming) = callee.incoming(Duration::from_millis(2)) {
                return (number, answer(incoming));
            }
        }
        assert!(Instant::now() < deadline, "no call comes");
    }
}

fn answer(incoming: IncomingCall) -> Taken {
    let invite = incoming.invite().clone();
    let call = incoming.accept("v=0\r\n").expect("the caller is there");
    Taken {
        invite,
        _call: call,
    }
}

/// Makes a call that this callee takes. Returns both ends.
pub fn call(caller: &Agent, uri: &str, callee: &Agent) -> (Call, Taken) {
    let call = dial(caller, uri);
    let taken = take(callee);
    call.answered().expect("an answer");
    (call, taken)
}

/// Sends an INVITE.
pub fn dial(caller: &Agent, uri: &str) -> Call {
    caller.invite(uri).session("v=0\r\n").send().expect("sent")
}

/// Makes a call that is refused. Returns the response.
pub fn refused(caller: &Agent, uri: &str) -> ReceivedMessage {
    refusal(&dial(caller, uri))
}

/// The response that refuses a call.
pub fn refusal(call: &Call) -> ReceivedMessage {
    match call.ended_within(PATIENCE) {
        Some(CallEnd::Rejected(response)) => response,
        other => panic!("the call should be refused: {other:?}"),
    }
}

/// Status, reason phrase and `Retry-After` of a response.
pub fn shown(response: &ReceivedMessage) -> String {
    let message = response.message();
    let first = format!("{} {}", message.status(), text(message.reason()));
    let message = text(message.bytes());
    match super::common::header(&message, "Retry-After") {
        Some(_) => first + ", Retry-After",
        None => first,
    }
}

/// Makes calls until one is refused. Returns the calls, and the response.
pub fn fill(
    uri: &str,
    callee: &Agent,
    mut caller: impl FnMut(usize) -> Agent,
) -> (Vec<(Call, Taken)>, ReceivedMessage) {
    let mut calls = Vec::new();
    loop {
        let call = dial(&caller(calls.len()), uri);
        let taken = loop {
            if let Some(incoming) = callee.incoming(Duration::from_millis(2)) {
                break Some(answer(incoming));
            }
            if call.end().is_some() {
                break None;
            }
        };
        match taken {
            Some(taken) => calls.push((call, taken)),
            None => return (calls, refusal(&call)),
        }
        assert!(calls.len() < 1_000, "there is no limit");
    }
}

/// Checks that a rate admitted as many calls as its burst, and those of the time since `begun`.
pub fn assert_rate(calls: usize, burst: u32, per_second: f64, begun: Instant) {
    let calls = u32::try_from(calls).expect("not many");
    let more = (begun.elapsed().as_secs_f64() * per_second).ceil();
    let most = f64::from(burst) + more;
    assert!(
        calls >= burst && f64::from(calls) <= most,
        "{calls} calls, not {burst} to {most}"
    );
}
