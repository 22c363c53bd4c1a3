//! Every key there is: the one list from which types, defaults, checks, the reference and the example file are made.
use super::catalogue::{
    Changes, Chapter, Section, any, between, not_empty, optional, optional_between, section,
};
use super::host_value::{
    Advertised, AgentName, Count, DatabaseUrl, DomainName, FilePath, LocationStore, NextHop,
};
use super::interval::{Interval, days, hours, micros, millis, seconds};
use super::keyword::{
    Aliases, ChallengedMethods, ClientCertificates, Digest, Durability, EventLoop, Foreign,
    LogFormat, LogLevel, StrangerMethod, Strangers, TlsVersion, Transport,
};
use super::network_value::Network;
use super::origin::Origin;
use sip_transport::selection::Destination;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

section! {
    /// Who the server is. These keys stand above the first section.
    General = "" {
        /// The domains that this server is responsible for. The first one also stands for the server's own addresses: a phone that
        /// knows only an address registers and calls in the first domain.
        reload domains: Vec<DomainName> = vec![DomainName("tandem.localhost".to_owned())], not_empty();

        /// What the `Server` header field of the server's own responses says. Empty: no such field.
        reload server_header: String = "Tandem".to_owned(), any();
    }
}

section! {
    /// Where the server listens. Without any such section it listens on UDP and TCP port 5060 of every IPv4 address.
    Listen = "listen", repeated = true {
        /// The transport.
        restart transport: Transport = Transport::Udp, any();

        /// Address and port to bind. A wildcard (`0.0.0.0`, `[::]`) becomes one listener for each address that the machine has of that
        /// family when the server starts. Port 0 lets the kernel choose.
        restart address: SocketAddr = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5060)), any();

        /// What this listener says of itself in Via, Record-Route and the like, where phones reach it by another address than it is
        /// bound to: behind NAT, in a container. Left out: the bound address. With a wildcard address all the listeners it becomes
        /// say the same, so it fits where one of them is reached from outside.
        restart advertise: Option<Advertised> = None, optional(Some(Advertised("203.0.113.5:5060".to_owned())));

        /// Whether a load balancer stands before it that says with each connection who is connected (PROXY protocol, version 2).
        /// Whoever can reach such a listener past the balancer may claim to be anybody.
        restart proxy_protocol: bool = false, any();
    }
}

section! {
    /// A certificate for TLS. With several of them a client gets the one for the name it asks for (SNI): one that holds exactly that name, then
    /// one with a wildcard for its first label; the first section is for clients that name nothing or something unknown, and what we
    /// show servers that ask who we are. The files are read again at each reload, also when the configuration is the same; sessions
    /// that are established go on with what they have.
    Certificate = "certificate", repeated = true {
        /// PEM file with the server's certificate, followed by those of the authorities between it and the root. Its names should be the
        /// domains, as DNS names or as `sip:` URIs (RFC 5922). Must be given.
        reload chain: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/chain.pem".into())));

        /// PEM file with the private key of the first certificate in `chain`, not encrypted: ECDSA, Ed25519 or RSA. ECDSA on P-256 costs
        /// the least. Must be given.
        reload key: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/key.pem".into())));
    }
}

section! {
    /// TLS, in both directions.
    Tls = "tls" {
        /// The oldest version that is spoken.
        reload min_version: TlsVersion = TlsVersion::V12, any();

        /// Whether clients are asked for a certificate: `"optional"` refuses only bad ones, `"required"` also clients without. What
        /// a client shows is judged by `client_ca`.
        reload client_certificates: ClientCertificates = ClientCertificates::None, any();

        /// PEM file with the authorities whose certificates clients may show. Needed where clients are asked for one.
        reload client_ca: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/client-ca.pem".into())));

        /// PEM file with the authorities that servers we connect to must be certified by. Left out: those that the operating system trusts.
        reload server_ca: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/server-ca.pem".into())));

        /// Whether servers that we connect to must prove that they are who we mean: the domain of the URI, compared as a whole, without
        /// wildcards (RFC 5922). `false` is for laboratories: anybody in between can then read and change everything.
        reload verify_servers: bool = true, any();
    }
}

section! {
    /// The threads that process SIP.
    Workers = "workers" {
        /// How many: `"auto"` is one for each core.
        restart count: Count = Count::Auto, any();

        /// How a worker waits for its sockets. `"auto"` takes what costs least, and says in the log what that is and why. `"io_uring"`
        /// (Linux 6.1 or later) receives and sends with the call that waits; where the kernel forbids it the server does not start, and
        /// says what forbids it.
        restart event_loop: EventLoop = EventLoop::Auto, any();

        /// How long a busy worker lets messages gather before it looks at its sockets again. It then handles several for one wake-up,
        /// which saves CPU time for a little delay. A worker does so while it is busy for more than about two thirds of the time,
        /// measured every 20 ms. Below that it handles each message as it arrives. `"0s"`: never.
        restart gather: Interval = micros(100), between(micros(0), millis(10));

        /// Numbers of the processors that workers are tied to: the first worker to the first, and so on, from the beginning again when
        /// there are more workers. An empty list ties none.
        restart pin: Vec<u16> = Vec::new(), any();
    }
}

section! {
    /// What happens when more comes in than can be served. What belongs to calls that exist is always served first.
    Overload = "overload" {
        /// Whether new requests are refused then, with 503 and a `Retry-After` of `limits.retry_after` to twice that. `false`: everything
        /// waits for its turn, however long.
        restart enabled: bool = true, any();

        /// How long the oldest request may wait before the queue counts as standing. A burst is served whole: it is over before the
        /// interval is.
        restart target: Interval = millis(25), between(millis(1), seconds(1));

        /// How long the queue must stand before requests are refused.
        restart interval: Interval = millis(200), between(millis(10), seconds(10));
    }
}

section! {
    /// What is at rest: subscribers, and registrations across restarts.
    Database = "database" {
        /// `sqlite:` and a path; a relative one starts at the working directory.
        restart url: DatabaseUrl = DatabaseUrl("sqlite:tandem.db".to_owned()), any();
    }
}

section! {
    /// Digest authentication (RFC 3261 section 22, RFC 8760).
    Auth = "auth" {
        /// Methods that are challenged when a request outside a dialog claims to come from one of our domains or addresses: `"all"`, or a
        /// list. A method that is left out is forwarded to subscribers without proof of who sent it: `NOTIFY` can restart a phone,
        /// `REFER` can make it call. An empty list turns digest off: anybody may then register and call as anybody. ACK and CANCEL
        /// cannot be challenged.
        reload challenge: ChallengedMethods = ChallengedMethods::All, any();

        /// Algorithms offered, each in a challenge of its own, the preferred one first (RFC 8760). Put SHA-256 first where all phones
        /// can cope with it: some that know only MD5 (baresip 1.0 is one) give up when they are offered anything else beside it.
        reload algorithms: Vec<Digest> = vec![Digest::Md5], not_empty();

        /// How long a nonce is good; after that the phone is given a new one without asking its user (`stale=true`).
        reload nonce_lifetime: Interval = seconds(300), between(seconds(5), days(1));

        /// How many nonces' counters are remembered against replay, over all workers. Phones that keep a nonce need one each.
        restart nonce_slots: usize = 262_144, between(1_024, 67_108_864);

        /// How many subscribers' credentials are kept in memory.
        restart cache_size: usize = 500_000, between(100, 50_000_000);

        /// How long credentials are used before the database is asked again. Changes made with `tandem user` are seen within two
        /// seconds whatever this is.
        restart cache_lifetime: Interval = hours(1), between(seconds(1), days(7));

        /// How long the answer "no such subscriber" is used.
        restart unknown_lifetime: Interval = seconds(30), between(seconds(1), hours(1));
    }
}

section! {
    /// Who is kept off: scanners and password guessers. A failure counts only where its source is proven: by credentials that answer a nonce sent
    /// there, or by a connection. Loopback, `proxy.trusted_peers` and `proxy.edge_proxies` are never banned by failures.
    Bans = "bans" {
        /// Whether too many failures ban their source: an IPv4 address, or an IPv6 network of 64 bits (of 56 bits for eight times as many). Without it the pauses after wrong passwords
        /// remain, and so do `tandem ctl bans.add` and the log lines for fail2ban.
        reload enabled: bool = true, any();

        /// Failures within `window` that ban a source. Many phones may share an address: one with a wrong password makes about 15 in
        /// five minutes, because pauses slow it down.
        reload failures: u32 = 50, between(1, 1_000_000);

        /// In which time failures are counted.
        reload window: Interval = seconds(300), between(seconds(1), days(1));

        /// How long a ban lasts.
        reload duration: Interval = seconds(600), between(seconds(1), days(7));

        /// Requests whose User-Agent begins with one of these, in any case, get no answer: `"friendly-scanner"`, `"sipvicious"` and the like.
        /// Scanners can call themselves anything; this only makes the log and the answers fewer.
        reload drop_user_agents: Vec<AgentName> = Vec::new(), any();

        /// Room for so many banned sources, sources with failures, and names with failures: 125 bytes each at most, a fifth of it from the start.
        restart table: usize = 65_536, between(16, 16_777_216);
    }
}

section! {
    /// How requests are forwarded (RFC 3261 section 16).
    Proxy = "proxy" {
        /// Requests for domains that are not ours. `"refuse"`: those of subscribers and trusted peers leave through `outbound` where it is set,
        /// all others are answered 403. `"subscribers"`: those of subscribers and trusted peers are forwarded, also without `outbound`.
        /// `"relay"`: requests of all senders are forwarded, which makes an open relay unless something in front of this server decides who may
        /// come.
        reload foreign: Foreign = Foreign::Refuse, any();

        /// Requests from other domains for subscribers: `"accept"` forwards the methods of `stranger_methods`, `"refuse"` answers 403. Trusted
        /// peers are no strangers.
        reload strangers: Strangers = Strangers::Accept, any();

        /// Methods that other domains may send to subscribers outside a dialog; others are answered 403. Nothing proves who sends them.
        reload stranger_methods: Vec<StrangerMethod> = vec![StrangerMethod::Invite, StrangerMethod::Message], any();

        /// Next hop for all requests that we are not responsible for: an address, or a name whose servers are found by NAPTR, SRV and
        /// address records (RFC 3263). Left out: they go where their URI says.
        reload outbound: Option<NextHop> = None, optional(Some(example_next_hop()));

        /// Networks whose requests are trusted: trunks, gateways, other proxies of yours. Their identity header fields are kept
        /// (`P-Asserted-Identity` and the like, RFC 3325), they may speak for your subscribers without a challenge, send every method, and
        /// reach other domains as subscribers do. Over UDP a source address can be forged: packets with such an address must not
        /// reach the server from outside.
        reload trusted_peers: Vec<Network> = Vec::new(), any();

        /// Networks of edge proxies: those whose `Path` (RFC 3327) the registrar accepts. A `Path` says where the subscriber's calls are
        /// sent.
        reload edge_proxies: Vec<Network> = Vec::new(), any();

        /// Networks that no request is ever sent to: your management network, the metadata service of a cloud.
        reload off_limits: Vec<Network> = Vec::new(), any();

        /// Whether dialogs keep passing through this server (Record-Route).
        reload record_route: bool = true, any();

        /// How long requests inside a dialog are relayed after the dialog began. A call that lasts longer goes on, but requests in it get
        /// 481, unless a re-INVITE, UPDATE or SUBSCRIBE has refreshed it in that time, as session timers do (RFC 4028).
        reload dialog_lifetime: Interval = hours(24), between(seconds(600), hours(720));

        /// Timer C: how long a phone may ring before its branch is cancelled. The RFC asks for more than three minutes.
        reload timer_c: Interval = seconds(185), between(seconds(1), hours(1));

        /// How long an INVITE waits for the first response before another server of its next hop is tried, or the phones of the next
        /// lower `q`. Without an alternative it waits 64 times `t1`. A server that is alive answers 100 within 200 ms. In 3 s the
        /// request is sent three times, so the loss of two datagrams does not look like a dead server. Any other request waits for this
        /// time and at least 8 times `t1` before another server is tried: a healthy server may be silent for so long (RFC 4320).
        reload no_answer: Interval = seconds(3), between(millis(100), hours(1));

        /// For how long the server of a next hop that gave no answer, could not be reached or answered 503 is tried after all the others. Then
        /// one call tries it again. `Retry-After` in the 503 may ask for a shorter time. `"0s"`: it is not remembered.
        reload dead_target_lifetime: Interval = seconds(30), between(seconds(0), hours(1));

        /// Most targets that one request is forked to, and most servers of a next hop that it tries.
        reload max_targets: usize = 16, between(1, 256);
    }
}

section! {
    /// How names of next hops are resolved (RFC 3263).
    Dns = "dns" {
        /// The name servers, asked in turn. An empty list: those of `/etc/resolv.conf`. What is in `/etc/hosts` is not asked for.
        restart servers: Vec<SocketAddr> = Vec::new(), any();

        /// How long a name server may take to answer before it is asked again.
        restart timeout: Interval = millis(800), between(millis(50), seconds(30));

        /// How often a question that was not answered is asked again.
        restart attempts: usize = 2, between(0, 10);

        /// How many answers are kept, each as long as its TTL says (a day at most), and "there is none" 15 minutes at most.
        restart cache_size: usize = 16_384, between(16, 10_000_000);
    }
}

section! {
    /// Registrations (RFC 3261 section 10).
    Registrar = "registrar" {
        /// Shortest lifetime of a binding; shorter wishes are answered 423 with `Min-Expires`.
        reload min_expires: Interval = seconds(60), between(seconds(1), days(1));

        /// Lifetime where the phone names none.
        reload default_expires: Interval = hours(1), between(seconds(1), days(30));

        /// Longest lifetime; longer wishes are shortened to it.
        reload max_expires: Interval = hours(2), between(seconds(1), days(30));

        /// Contacts that one address of record may have; more are answered 403.
        reload max_contacts: usize = 10, between(1, 1_000);

        /// Whether a phone is reached at the host of its `Contact` where its REGISTER came from another address. `false`: it is
        /// reached where its REGISTER came from, which finds phones behind NAT and lets no subscriber have calls sent to
        /// other addresses.
        reload follow_contact: bool = false, any();
    }
}

section! {
    /// Who is registered where.
    Location = "location" {
        /// Where bindings live: `"memory"`, from where changes are saved to the database within a fraction of a second.
        restart store: LocationStore = LocationStore::Memory, any();

        /// How often changed bindings are saved, all that have changed in one transaction or a few.
        reload save_interval: Interval = millis(20), between(millis(10), seconds(60));

        /// How much later than `save_interval` a registration that was answered 200 may be in the database. When saving cannot keep up, answers
        /// wait until their bindings are saved; when too many wait, registrations are answered 503.
        reload max_lag: Interval = seconds(1), between(millis(100), seconds(60));

        /// `"interval"` answers at once: if the process is killed, registrations of the last `save_interval` and `max_lag` may be lost.
        /// `"commit"` answers when the binding is in the database and the disk has confirmed it: nothing that was answered is lost, not even if
        /// the machine loses power. It delays each answer by `save_interval` and the disk's time to write.
        restart durability: Durability = Durability::Interval, any();
    }
}

section! {
    /// The timers of RFC 3261 section 17.1.1.1.
    Timers = "timers" {
        /// Estimate of the round trip; retransmissions begin with it.
        reload t1: Interval = millis(500), between(millis(10), seconds(10));

        /// Longest pause between retransmissions of requests other than INVITE and of responses to INVITE.
        reload t2: Interval = seconds(4), between(millis(10), seconds(60));

        /// How long a message may stay in the network.
        reload t4: Interval = seconds(5), between(millis(10), seconds(60));
    }
}

section! {
    /// The most of everything. What does not fit is answered 503 with `Retry-After`.
    Limits = "limits" {
        /// Server transactions of each worker. Over UDP one lives for about 32 seconds.
        reload server_transactions: usize = 400_000, between(100, 50_000_000);

        /// Client transactions of each worker.
        reload client_transactions: usize = 400_000, between(100, 50_000_000);

        /// Forwarded requests of each worker that wait for their final response.
        reload response_contexts: usize = 200_000, between(100, 50_000_000);

        /// Requests of each worker that wait for the database or a name server.
        reload parked_requests: usize = 20_000, between(10, 1_000_000);

        /// Dialogs per worker whose Contact was refreshed in the middle of the dialog, each party counted. The oldest make room, one source has
        /// at most a quarter of them, and what is forgotten keeps the Contact that the dialog began with. Up to 320 bytes each.
        reload refreshed_targets: usize = 100_000, between(0, 10_000_000);

        /// Bytes of messages that each worker holds: requests that wait or may be sent again, responses that may be sent again. One source
        /// without proof of who it is (an IPv4 address, or an IPv6 network of 64 bits) gets a sixteenth of this and of the tables above, all
        /// of them together three quarters. One source gets a quarter for its authenticated subscribers and a quarter for its dialogs;
        /// `proxy.trusted_peers` have no share. Requests inside dialogs may use half as much again of each table, and those without a body
        /// half as much again of the bytes.
        reload held_bytes: usize = 256 << 20, between(1 << 20, 1 << 40);

        /// Bytes that are sent over UDP, for each byte received, in answer to a request whose sender has not proved who it is. More lets others
        /// use the server as an amplifier against other addresses.
        reload amplification: u32 = 3, between(1, 1_000);

        /// How long a request waits for the database or a name server before it is answered 500, or 504 where it is a name server.
        /// Requests that wait while it changes keep the time they were given.
        reload question_deadline: Interval = seconds(3), between(millis(50), seconds(30));

        /// Bindings in all.
        restart bindings: usize = 1_000_000, between(100, 100_000_000);

        /// Addresses of record whose changed bindings may wait for the database; when there are more, everything is saved at once.
        restart pending_changes: usize = 200_000, between(100, 100_000_000);

        /// Most header field lines of a message. A request with more is answered 400, a response dropped.
        reload header_fields: usize = 256, between(32, 512);

        /// Seconds that `Retry-After` names.
        reload retry_after: u32 = 10, between(1, 3_600);
    }
}

section! {
    /// The HTTP interface: health, metrics, JSON-RPC. Its callers may do everything. On a loopback address it needs no token; web pages
    /// are kept away by their Host and Origin header fields.
    Admin = "admin" {
        /// Address and port. An address that other machines can reach requires `token_file`.
        restart listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8060)), any();

        /// Names by which callers may address the interface (`Host`), beside `localhost` and literal addresses. Requests for any other
        /// name are answered 421, because a web page can point a name of its own at this machine (DNS rebinding).
        restart hosts: Vec<DomainName> = Vec::new(), any();

        /// File with the token that callers must send as `Authorization: Bearer TOKEN`: 16 or more visible characters. `/health/live` and
        /// `/health/ready` answer without it. Left out: no token.
        restart token_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/admin.token".into())));

        /// Unix socket on which the same interface listens, too. The file has mode 0600: only the server's own user can connect, and
        /// needs no token. `tandem ctl` prefers it.
        restart socket: Option<FilePath> = None, optional(Some(FilePath("/run/tandem/admin.sock".into())));
    }
}

section! {
    /// What the server writes about itself, to standard error.
    Log = "log" {
        /// The least severe record that is written.
        reload level: LogLevel = LogLevel::Info, any();

        /// `"text"` for people, `"json"` for programs.
        restart format: LogFormat = LogFormat::Text, any();
    }
}

section! {
    /// UDP sockets.
    Udp = "udp" {
        /// Receive buffer asked of the kernel for each socket, in bytes. What it granted is in the log and the metrics; more than
        /// `net.core.rmem_max` is only granted to a privileged process.
        restart receive_buffer: usize = 4_194_304, between(65_536, 1_073_741_824);

        /// Messages to one address that are ready at the same moment are given to the kernel as one, which cuts them up
        /// (`UDP_SEGMENT`): less processor time where much goes to few, like trunks and other servers. Messages that are longer
        /// than 1,200 octets are sent by themselves, and so are all where the kernel cannot do it.
        restart segmentation: bool = true, any();

        /// The kernel gives a datagram to the worker that is the home of its call, whichever address it comes from: less processor
        /// time with several workers, and what one trunk sends is spread over all of them. Where the kernel takes no program for it
        /// (the log says so), and with `share_port`, workers hand over what is not theirs.
        restart steering: bool = true, any();

        /// Whether another process may be bound to the same address already and share its traffic. It is refused otherwise, because
        /// a forgotten process would silently take half of the requests.
        restart share_port: bool = false, any();
    }
}

section! {
    /// Connections: TCP and what runs over it. Whoever is slow, silent or talks nonsense is closed by deadline, and counted by reason.
    Connections = "connections" {
        /// Most connections, over all workers. Left out: as many as the limit of open files (`RLIMIT_NOFILE`) allows, which the
        /// server raises as far as the system lets it. Never more than that: descriptors for the admin interface, the database, the log
        /// and connections that the server opens are kept apart.
        restart max: Option<usize> = None, optional_between(10, 1_000_000, 20_000);

        /// Most connections from one IPv4 address, or one IPv6 network of 64 bits, over all workers. Those of
        /// `proxy.trusted_peers` do not count. Left out: 1,000, but no more than a quarter of all.
        restart max_per_peer: Option<u32> = None, optional_between(1, 1_000_000, 1_000);

        /// Most octets of a message's start line and header fields.
        restart max_header: usize = 32_768, between(1_024, 65_536);

        /// Most octets of a message's body.
        restart max_body: usize = 65_536, between(1_024, 196_608);

        /// Octets that may wait for one peer to read. A message that finds no room is not sent, as if its peer could not be reached.
        restart max_queue: usize = 262_144, between(65_536, 67_108_864);

        /// Bytes that may wait for all peers together. Each worker has an equal share, of which strangers fill three quarters at most.
        restart max_queued: usize = 268_435_456, between(1_048_576, 17_179_869_184);

        /// Bytes that the beginnings of messages may take in all connections together. Each worker has an equal share. When there are
        /// more, the connection whose message has been incomplete for longest is closed.
        restart max_partial: usize = 134_217_728, between(1_048_576, 17_179_869_184);

        /// Bytes that the connections from one IPv4 address, or one IPv6 network of 64 bits, may hold in both directions, over all
        /// workers. Those of `proxy.trusted_peers` do not count. It should be more than `max_queue`.
        restart max_held_per_peer: usize = 4_194_304, between(262_144, 17_179_869_184);

        /// Origins whose pages may open a WebSocket, such as `"https://phone.example.org"`, beside those of the server's domains and
        /// of the host that the page connects to (over `ws:` only where that is an address or `localhost`). `"*"` lets all
        /// pages. Clients that name no origin are no browsers and may connect.
        reload origins: Vec<Origin> = Vec::new(), any();

        /// Whose claim is believed that requests to its address and the port in its Via are to take the connection that it opened
        /// (`alias`, RFC 5923): `"certified"` peers are those with a client certificate that we trust.
        restart aliases: Aliases = Aliases::Certified, any();

        /// How long a connection may take to be opened, with its handshake and the first write.
        restart open_timeout: Interval = seconds(5), between(seconds(1), seconds(60));

        /// How long an accepted connection may take to its first message.
        restart silent_timeout: Interval = seconds(30), between(seconds(1), hours(1));

        /// How long a message may take from its first octet to its last.
        restart message_timeout: Interval = seconds(10), between(seconds(1), hours(1));

        /// How long a peer may read nothing of what waits for it.
        restart write_timeout: Interval = seconds(10), between(seconds(1), hours(1));

        /// How long an accepted connection may go without a message while its peer is a stranger: until a request of it has been
        /// authenticated or belongs to a dialog, or a call of it rings. Keep-alives do not count, and after eight times as long it
        /// is closed whatever it sends. Peers of `proxy.trusted_peers` are no strangers.
        restart unproven_timeout: Interval = seconds(32), between(seconds(1), hours(1));

        /// How long a connection may be idle once its peer is no stranger. Keep-alives count as traffic.
        restart idle_timeout: Interval = hours(3), between(seconds(10), days(7));

        /// After how much silence the kernel asks whether the peer is still there (`SO_KEEPALIVE`).
        restart keep_alive: Interval = seconds(120), between(seconds(10), hours(2));
    }
}

section! {
    /// How the server ends.
    Shutdown = "shutdown" {
        /// How long calls that are being set up may take to finish after SIGTERM. A second signal ends at once.
        reload drain_timeout: Interval = seconds(30), between(seconds(0), hours(1));
    }
}

impl Listen {
    /// Where the server listens when the file does not say.
    pub fn defaults() -> Vec<Self> {
        [Transport::Udp, Transport::Tcp]
            .map(|transport| Self {
                transport,
                ..Self::default()
            })
            .into()
    }
}

/// The next hop in the reference.
fn example_next_hop() -> NextHop {
    NextHop(Destination {
        host: "trunk.example.net".into(),
        port: None,
        protocol: None,
        secure: false,
    })
}

/// The whole file, typed, with the defaults filled in.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "each is a section, documented at its type")]
pub struct Configuration {
    pub general: General,
    /// In the order of the file; never empty once read.
    pub listen: Vec<Listen>,
    /// In the order of the file.
    pub certificate: Vec<Certificate>,
    pub tls: Tls,
    pub workers: Workers,
    pub overload: Overload,
    pub database: Database,
    pub auth: Auth,
    pub bans: Bans,
    pub proxy: Proxy,
    pub dns: Dns,
    pub registrar: Registrar,
    pub location: Location,
    pub timers: Timers,
    pub limits: Limits,
    pub admin: Admin,
    pub log: Log,
    pub udp: Udp,
    pub connections: Connections,
    pub shutdown: Shutdown,
}

/// Expands `$do!(field Type)` for every section that is given at most once.
macro_rules! for_each_section {
    ($do:ident) => {
        $do! {
            tls Tls, workers Workers, overload Overload, database Database, auth Auth, bans Bans, proxy Proxy, dns Dns, registrar Registrar, location Location, timers Timers,
            limits Limits, admin Admin, log Log, udp Udp, connections Connections, shutdown Shutdown
        }
    };
}
pub(super) use for_each_section;

impl Configuration {
    /// All chapters of the reference, in order.
    pub fn chapters() -> Vec<Chapter> {
        macro_rules! chapters {
            ($($field:ident $type:ident),+) => { vec![General::chapter(), Listen::chapter(), Certificate::chapter(), $($type::chapter()),+] };
        }
        for_each_section!(chapters)
    }

    /// The whole file with every key that has a value, defaults included.
    pub fn to_toml(&self) -> String {
        let mut file = String::new();
        write_values(&mut file, &self.general);
        for listen in &self.listen {
            let _ = write!(file, "\n[[{}]]\n", Listen::NAME);
            write_values(&mut file, listen);
        }
        for certificate in &self.certificate {
            let _ = write!(file, "\n[[{}]]\n", Certificate::NAME);
            write_values(&mut file, certificate);
        }
        macro_rules! write_all {
            ($($field:ident $type:ident),+) => { $(
                let _ = write!(file, "\n[{}]\n", $type::NAME);
                write_values(&mut file, &self.$field);
            )+ };
        }
        for_each_section!(write_all);
        file
    }

    /// The paths of the keys that differ between two configurations, with the time their change takes effect.
    pub fn differences(&self, other: &Self) -> Vec<(String, Changes)> {
        let mut found: Vec<(String, Changes)> = self
            .general
            .differences(&other.general)
            .into_iter()
            .map(|(key, changes)| (key.to_owned(), changes))
            .collect();
        if self.listen != other.listen {
            found.push(("listen".to_owned(), Changes::Restart));
        }
        if self.certificate != other.certificate {
            found.push((Certificate::NAME.to_owned(), Changes::Reload));
        }
        macro_rules! compare {
            ($($field:ident $type:ident),+) => { $(
                for (key, changes) in self.$field.differences(&other.$field) {
                    found.push((format!("{}.{key}", $type::NAME), changes));
                }
            )+ };
        }
        for_each_section!(compare);
        found
    }
}

fn write_values<S: Section>(file: &mut String, section: &S) {
    for (key, value) in section.values() {
        let _ = writeln!(file, "{key} = {value}");
    }
}
