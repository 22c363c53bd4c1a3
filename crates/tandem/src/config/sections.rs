//! The catalogue of all configuration keys: the single source of types, checks, the reference and the example file. A default that the
//! crates below have, too, is taken from them, so that tests and fuzzing run with the defaults of the server.
use super::catalogue::{any, between, not_empty, optional, optional_between, required};
use super::declare::{choice, section};
use super::duration_value::{days, hours, micros, millis, seconds};
use super::host_value::{
    Advertised, AgentName, Count, DatabaseUrl, DomainName, FilePath, HepCollector, LocationStore,
    NextHop,
};
use super::kamailio_sections::Dispatcher;
use super::keyword::{
    CallLines, Durability, LogFormat, LogLevel, RecordedFailures, StrangerMethod,
};
use super::network_value::Network;
use super::node_name::NodeName;
use super::origin::Origin;
use super::redis_url::RedisUrl;
use super::routing_identity::Numbering;
use super::routing_sections::{
    CallLimit, CallLimits, Gateway, GatewayGroup, NamedNetwork, Prefixes, RoutingRule,
};
use sip_elements::bans::BanSettings;
use sip_elements::{
    ChallengedMethods, DiversionHeaders, Foreign, ProxySettings, Redirects, RegistrarSettings,
    SessionTimerSettings, Settings, Strangers, TableLimits,
};
use sip_message::digest::Algorithm;
use sip_runtime::tls::{TlsSettings, TlsVersion};
use sip_runtime::{Aliases, EventLoopKind, Options, StreamOptions};
use sip_transaction::TimerSettings;
use sip_transport::Protocol;
use sip_transport::overload::OverloadSettings;
use sip_transport::selection::Destination;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tandem_store::StoreOptions;

section! {
    /// The identity of the server. Place these keys above the first section.
    Configuration {
        /// The domains that this server is responsible for. The first domain also covers the server's own addresses: a phone that knows
        /// only an address registers and calls in the first domain.
        reload domains: Vec<DomainName> = vec![DomainName("tandem.localhost".to_owned())], not_empty();

        /// Value of the `Server` header field in the server's own responses. If empty, the field is omitted.
        reload server_header: String = settings().server_header, any();

        /// In the order of the file; never empty after reading.
        section listen: Vec<Listen> = Listen::defaults();

        /// In the order of the file.
        section certificate: Vec<Certificate>;

        /// TLS.
        section tls: Tls;

        /// Worker threads.
        section workers: Workers;

        /// Overload control.
        section overload: Overload;

        /// The node.
        section node: Node;

        /// The database.
        section database: Database;

        /// Digest authentication.
        section auth: Auth;

        /// Bans.
        section bans: Bans;

        /// The proxy.
        section proxy: Proxy;

        /// Named networks.
        section network: Vec<NamedNetwork>;

        /// Telephone numbers.
        section numbering: Numbering;

        /// Gateways.
        section gateway: Vec<Gateway>;

        /// Groups of gateways.
        section group: Vec<GatewayGroup>;

        /// Gateways of a Kamailio.
        section dispatcher: Dispatcher;

        /// Limits for calls.
        section limit: Vec<CallLimit>;

        /// Limits for all calls.
        section call_limits: CallLimits;

        /// Routing rules, in the order of the file.
        section rule: Vec<RoutingRule>;

        /// Prefixes.
        section prefixes: Prefixes;

        /// Session timers.
        section session_timers: SessionTimers;

        /// Name resolution.
        section dns: Dns;

        /// The registrar.
        section registrar: Registrar;

        /// The location service.
        section location: Location;

        /// Timers.
        section timers: Timers;

        /// Dialogs of calls.
        section dialogs: Dialogs;

        /// Upper limits.
        section limits: Limits;

        /// The HTTP interface.
        section admin: Admin;

        /// Call records.
        section records: Records;

        /// Call events.
        section events: Events;

        /// The log.
        section log: Log;

        /// Copies of messages for a collector.
        section trace: Trace;

        /// UDP sockets.
        section udp: Udp;

        /// Connections.
        section connections: Connections;

        /// Shutdown.
        section shutdown: Shutdown;
    }
}

section! {
    /// The addresses that the server listens on. Without a `[[listen]]` section, it listens on UDP and TCP port 5060 of every IPv4
    /// address.
    Listen {
        /// The transport protocol.
        restart transport: Protocol = Protocol::Udp, any();

        /// Address and port to bind. A wildcard (`0.0.0.0`, `[::]`) becomes one listener for each address of that family that the machine
        /// has at startup. With port 0, the kernel chooses the port.
        restart address: SocketAddr = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5060)), any();

        /// Address that this listener puts into Via, Record-Route and similar header fields. Set it if phones reach the listener at an
        /// address other than the bound one, for example behind NAT or in a container. If omitted, the bound address is used. With a
        /// wildcard address, all resulting listeners advertise the same value, so use this only if one of them is reached from outside.
        restart advertise: Option<Advertised> = None, optional(Some(Advertised("203.0.113.5:5060".to_owned())));

        /// Expect a PROXY protocol v2 header on each connection. A load balancer in front of the listener sends this header, which names
        /// the real peer. A host that can bypass the balancer can claim any source address.
        restart proxy_protocol: bool = false, any();
    }
}

section! {
    /// A certificate for TLS. With several sections, the server selects one by the name that the client requests (SNI): a certificate with
    /// exactly that name, then one with a wildcard for its first label. The first section is for clients that request no name or an
    /// unknown name. It is also the certificate that the server presents to servers that ask for one. Each reload reads the files again,
    /// even if the configuration is unchanged. Established sessions keep their certificate.
    Certificate {
        /// PEM file with the server's certificate, followed by the intermediate certificates up to the root. Its names should be the
        /// domains, as DNS names or as `sip:` URIs (RFC 5922).
        reload chain: FilePath = FilePath("/etc/tandem/chain.pem".into()), required();

        /// PEM file with the unencrypted private key of the first certificate in `chain`: ECDSA, Ed25519 or RSA. ECDSA on P-256 costs the
        /// least CPU time.
        reload key: FilePath = FilePath("/etc/tandem/key.pem".into()), required();
    }
}

section! {
    /// TLS settings for inbound and outbound connections.
    Tls {
        /// The minimum TLS version.
        reload min_version: TlsVersion = TlsSettings::default().min_version, any();

        /// Verification of clients.
        inline clients: TlsClients;

        /// PEM file with the authorities that the certificates of other servers are verified against. If omitted, the server uses the
        /// authorities that the operating system trusts.
        reload server_ca: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/server-ca.pem".into())));

        /// Verify the certificates of servers that Tandem connects to. A certificate must name the domain of the URI, compared as a whole,
        /// without wildcards (RFC 5922). Use `false` only in a laboratory: anyone on the path can then read and change all traffic.
        reload verify_servers: bool = TlsSettings::default().verify_servers, any();
    }
}

choice! {
    /// How TLS clients are verified.
    TlsClients {
        /// Whether the server requests a certificate from clients. `"optional"` rejects only invalid certificates; `"required"` also
        /// rejects clients without one.
        reload client_certificates = {
            /// No certificate is requested.
            None = "none",
            /// Clients may present one.
            Optional(ClientAuthorities) = "optional",
            /// Clients must present one.
            Required(ClientAuthorities) = "required",
        }
    }
}

section! {
    /// What the certificates of TLS clients are verified against.
    ClientAuthorities {
        /// PEM file with the authorities that client certificates are verified against.
        reload client_ca: FilePath = FilePath("/etc/tandem/client-ca.pem".into()), required();
    }
}

section! {
    /// The threads that process SIP.
    Workers {
        /// Number of worker threads. `"auto"` starts one for each core.
        restart count: Count = Count::Auto, any();

        /// How a worker waits for its sockets. `"auto"` selects the method with the lowest cost and logs the choice with its reason.
        /// `"io_uring"` (Linux 6.1 or later) receives and sends with the same system call that waits. If the kernel forbids it, the server
        /// does not start and reports what forbids it.
        restart event_loop: EventLoopKind = EventLoopKind::default(), any();

        /// How long a busy worker lets messages gather before it looks at its sockets again. It then handles several messages per wake-up,
        /// which saves CPU time at the cost of a small delay. A worker does this while it is busy for more than about two thirds of the
        /// time, measured every 20 ms. Below that, it handles each message as it arrives. `"0s"` disables gathering.
        restart gather: Duration = Options::default().gather, between(micros(0), millis(10));

        /// CPU numbers to pin workers to: the first worker to the first CPU, and so on. If there are more workers than numbers, the list
        /// starts again from the beginning. An empty list pins no worker.
        restart pin: Vec<u16> = Vec::new(), any();
    }
}

section! {
    /// Behaviour when more requests arrive than the server can process. Messages of existing calls are always processed first.
    Overload {
        /// Reject new requests during overload, with 503 and a `Retry-After` between `limits.retry_after` and twice that value. With
        /// `false`, all requests wait for their turn without a time limit.
        restart enabled: bool = true, any();

        /// Queueing delay of the oldest request above which the queue counts as standing. A burst that ends before `interval` does is
        /// processed in full.
        restart target: Duration = OverloadSettings::default().target, between(millis(1), seconds(1));

        /// How long the queue must stand before new requests are rejected.
        restart interval: Duration = OverloadSettings::default().interval, between(millis(10), seconds(10));
    }
}

section! {
    /// This server among those that share its database.
    Node {
        /// Name of this server: 1 to 63 letters, digits, `-`, `.` and `_`. Servers that share a database need different names. The name
        /// marks everything that this server saves. After a restart, a server knows only the calls that it saved under its present name,
        /// so do not change the name while there are calls.
        restart name: NodeName = NodeName::default(), any();
    }
}

section! {
    /// Persistent storage: subscribers, and registrations across restarts.
    Database {
        /// `sqlite:` followed by a path, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `mysql://USER:PASSWORD@HOST:PORT/DATABASE` for
        /// MySQL and MariaDB. A relative path starts at the working directory. Write special characters of the password as `%XX`. The log,
        /// the admin interface and `tandem check` do not show the password.
        restart url: DatabaseUrl = DatabaseUrl("sqlite:tandem.db".to_owned()), any();

        /// Maximum number of connections to the database. With a database server, one more connection reserves this server's name there.
        restart connections: u32 = StoreOptions::default().connections, between(2, 64);

        /// The tables of the database.
        inline schema: Schema;
    }
}

choice! {
    /// Whose tables the database has.
    Schema {
        /// Whose tables the database has. `"kamailio"` reads the tables of a Kamailio on PostgreSQL or MySQL in place and writes nothing,
        /// so that you can try Tandem beside it ([from Kamailio](from-kamailio.md)). Registrations and calls of this server are then
        /// only in memory, and `records.database`, `dialogs.persist` and `location.durability = "commit"` are not available.
        restart schema = {
            /// Tandem's own, which the server creates.
            Tandem = "tandem",
            /// Those of a Kamailio.
            Kamailio(KamailioTables) = "kamailio",
        }
    }
}

section! {
    /// How the tables of a Kamailio are read.
    KamailioTables {
        /// Where passwords are, as `calculate_ha1` of Kamailio's module `auth_db`: with `true` in the column `password`, with `false` in
        /// `ha1`, or in `password` if `ha1` is empty.
        restart calculate_ha1: bool = false, any();

        /// Time zone of Kamailio's process, in which it writes when registrations expire: a name that the database server knows, such as
        /// `"Europe/Berlin"`, or an offset such as `"+01:00"`. MySQL knows names only if its tables of time zones are filled.
        restart time_zone: String = "UTC".to_owned(), any();

        /// How often the registrations at Kamailio are read again. Calls reach a phone that registers at Kamailio after at most this time.
        reload location_interval: Duration = seconds(60), between(seconds(1), days(1));

        /// Group (`grp`) of the table `address` whose networks are added to `proxy.trusted_peers`, at the start and at each reload. Rows
        /// with a port or a name are skipped. If the database is away at a reload, the networks that were read last stay trusted. If
        /// omitted, the table is not read.
        reload trusted_group: Option<u32> = None, optional_between(0, 2_147_483_647, 1);
    }
}

section! {
    /// Digest authentication (RFC 3261 section 22, RFC 8760).
    Auth {
        /// Methods that the server challenges when a request outside a dialog claims to come from one of its domains or addresses:
        /// `"all"`, or a list. Other methods are forwarded to subscribers without proof of the sender: `NOTIFY` can restart a phone, and
        /// `REFER` can make it call. An empty list disables digest authentication: anyone can then register and call under any identity.
        /// ACK and CANCEL cannot be challenged.
        reload challenge: ChallengedMethods = settings().challenge, any();

        /// Algorithms to offer, in order of preference, each in its own challenge (RFC 8760). Put SHA-256 first if all phones support it.
        /// Some phones that know only MD5, such as baresip 1.0, give up if the server offers anything else as well.
        reload algorithms: Vec<Algorithm> = settings().algorithms, not_empty();

        /// Lifetime of a nonce. After that, the phone receives a new one without asking its user (`stale=true`).
        reload nonce_lifetime: Duration = settings().nonce_lifetime, between(seconds(5), days(1));

        /// Number of nonces whose counters are kept for replay protection, over all workers. Each phone that reuses a nonce needs one
        /// slot.
        restart nonce_slots: usize = 262_144, between(1_024, 67_108_864);

        /// Maximum number of subscribers whose credentials are cached in memory.
        restart cache_size: usize = 500_000, between(100, 50_000_000);

        /// How long cached credentials are used before the server queries the database again. Changes made with `tandem user` take effect
        /// within two seconds, regardless of this value.
        restart cache_lifetime: Duration = hours(1), between(seconds(1), days(7));

        /// How long the result "no such subscriber" is cached.
        restart unknown_lifetime: Duration = seconds(30), between(seconds(1), hours(1));
    }
}

section! {
    /// Protection against scanners and password guessing. A failure counts only if its source is proven: by credentials that answer a
    /// nonce sent there, or by a connection. Failures never ban loopback, `proxy.trusted_peers` or `proxy.edge_proxies`.
    Bans {
        /// Ban a source after too many failures. A source is an IPv4 address or an IPv6 /64 network; eight times as many failures ban an
        /// IPv6 /56 network. With `false`, the delays after wrong passwords remain, as do `tandem ctl ban` and the log lines for
        /// fail2ban.
        reload enabled: bool = BanSettings::default().automatic, any();

        /// Number of failures within `window` that ban a source. Many phones can share an address. One phone with a wrong password causes
        /// about 15 failures in five minutes, because delays slow it down.
        reload failures: u32 = BanSettings::default().failures, between(1, 1_000_000);

        /// Time window in which failures are counted.
        reload window: Duration = BanSettings::default().window, between(seconds(1), days(1));

        /// Duration of a ban.
        reload duration: Duration = BanSettings::default().duration, between(seconds(1), days(7));

        /// User-Agent prefixes, compared without case, such as `"friendly-scanner"` or `"sipvicious"`. Matching requests are dropped
        /// without a response. Scanners can send any User-Agent, so this only reduces log lines and responses.
        reload drop_user_agents: Vec<AgentName> = Vec::new(), any();

        /// Capacity of each of three tables: banned sources, sources with failures, and names with failures. An entry takes at most 125
        /// bytes. A fifth of the memory is allocated at startup.
        restart table: usize = 65_536, between(16, 16_777_216);
    }
}

section! {
    /// How requests are forwarded (RFC 3261 section 16).
    Proxy {
        /// What happens to requests for other domains. With `"refuse"`, requests of subscribers and trusted peers leave through `outbound`
        /// if it is set; all others are rejected with 403. `"subscribers"` forwards requests of subscribers and trusted peers, even
        /// without `outbound`. `"relay"` forwards requests of all senders. This makes the server an open relay, unless something in front
        /// of it controls access.
        reload foreign: Foreign = ProxySettings::default().foreign, any();

        /// What happens to requests from other domains to subscribers. `"accept"` forwards the methods in `stranger_methods`; `"refuse"`
        /// rejects all with 403. Trusted peers are not strangers.
        reload strangers: Strangers = ProxySettings::default().strangers, any();

        /// Methods that other domains may send to subscribers outside a dialog. Other methods are rejected with 403. The server has no
        /// proof of who sends these requests.
        reload stranger_methods: Vec<StrangerMethod> = stranger_methods(), any();

        /// Next hop for all requests that the server is not responsible for: an address, or a name whose servers are found by NAPTR, SRV
        /// and address records (RFC 3263). If omitted, requests go where their URI points.
        reload outbound: Option<NextHop> = None, optional(Some(example_next_hop()));

        /// Networks whose requests are trusted, such as trunks, gateways and your other proxies. Their identity header fields are kept
        /// (`P-Asserted-Identity` and similar, RFC 3325). They may act for your subscribers without a challenge, send every method, and
        /// reach other domains like subscribers. Over UDP, a source address can be forged: make sure that packets with such an address
        /// cannot reach the server from outside.
        reload trusted_peers: Vec<Network> = Vec::new(), any();

        /// Networks of edge proxies. The registrar accepts a `Path` (RFC 3327) only from these. A `Path` determines where the subscriber's
        /// calls are sent.
        reload edge_proxies: Vec<Network> = Vec::new(), any();

        /// Networks that the server never sends requests to, such as your management network or the metadata service of a cloud.
        reload off_limits: Vec<Network> = Vec::new(), any();

        /// Event packages that subscribers' phones do not report. A SUBSCRIBE or PUBLISH with one of them to a subscriber gets 489. If
        /// you have a server for such events, send them there with a rule. If the list is empty, all pass to the phones.
        reload refused_events: Vec<String> = ProxySettings::default().refused_events, any();

        /// What happens to redirections (3xx) of subscribers' phones. `"pass"`: the caller gets them. `"recurse"`: the server calls their
        /// contacts on behalf of the redirecting subscriber, and only those that this subscriber may call. Other redirections pass.
        reload redirects: Redirects = ProxySettings::default().diversions.redirects, any();

        /// How often a call may be diverted, by call forwarding or by a redirection that the server follows. The `Diversion` values of the
        /// request count. A call that was diverted too often gets 480.
        reload max_diversions: usize = ProxySettings::default().diversions.most, between(0, 20);

        /// Header fields that tell the next callee who has diverted a call: `Diversion` (RFC 5806), `History-Info` (RFC 7044).
        reload diversion_headers: DiversionHeaders = ProxySettings::default().diversions.headers, any();

        /// Keep this server in the path of dialogs (Record-Route).
        reload record_route: bool = ProxySettings::default().record_route, any();

        /// How long requests inside a dialog are relayed after the dialog began. A longer call continues, but requests in it are rejected
        /// with 481, unless a re-INVITE, UPDATE or SUBSCRIBE has refreshed the dialog within that time, as session timers do (RFC 4028).
        reload dialog_lifetime: Duration = ProxySettings::default().dialog_lifetime, between(seconds(600), hours(720));

        /// Timer C: how long a phone may ring before its branch is cancelled. The RFC requires more than three minutes.
        reload timer_c: Duration = ProxySettings::default().timer_c, between(seconds(1), hours(1));

        /// Maximum time that a call may stay unanswered, from its INVITE on. Each ringing response (18x) restarts Timer C, so that a phone could
        /// otherwise ring forever. Then the call is cancelled, and the caller gets 408. `gateway.answer_timeout` bounds the time at a gateway.
        reload max_ringing: Duration = ProxySettings::default().max_ringing, between(seconds(10), hours(24));

        /// How long an INVITE waits for the first response before the server tries another server of its next hop, or the phones with the
        /// next lower `q`. Without an alternative, it waits 64 times `t1`. A server that is alive answers 100 within 200 ms. In 3 s the
        /// request is sent three times, so the loss of two datagrams does not look like a dead server. Any other request waits this long,
        /// and at least 8 times `t1`, before another server is tried: a healthy server may be silent for that long (RFC 4320).
        reload no_answer: Duration = ProxySettings::default().no_answer.unwrap_or_default(), between(millis(100), hours(1));

        /// How long a server of a next hop is tried last after it did not answer, could not be reached or answered 503. Then one call
        /// tries it again. `Retry-After` in the 503 can ask for a shorter time. With `"0s"`, failures are not recorded.
        reload dead_target_lifetime: Duration = ProxySettings::default().dead_target_lifetime, between(seconds(0), hours(1));

        /// Maximum number of targets that a request is forked to, and of servers of a next hop that it tries.
        reload max_targets: usize = ProxySettings::default().max_targets, between(1, 256);
    }
}

section! {
    /// Session timers (RFC 4028): phones refresh their calls with re-INVITE or UPDATE, so that a call ends when a phone is gone.
    SessionTimers {
        /// Ask for session timers in INVITE, and check the intervals that phones ask for. With `false`, the header fields of session
        /// timers pass unchanged. Without `proxy.record_route`, the server does not see the refreshes, and acts as with `false`.
        reload enabled: bool = true, any();

        /// Session interval: how long a call lasts without a refresh. An INVITE without an interval gets this one; a longer interval is
        /// reduced to it, but never below the caller's `Min-SE`. Phones refresh after half the interval. Must not be longer than
        /// `proxy.dialog_lifetime`.
        reload interval: Duration = SessionTimerSettings::default().interval, between(seconds(90), days(1));

        /// The shortest session interval that the server accepts. A shorter one is rejected with 422 and `Min-SE` if the caller supports
        /// session timers, else raised.
        reload min_interval: Duration = SessionTimerSettings::default().min_interval, between(seconds(90), days(1));
    }
}

section! {
    /// Name resolution of next hops (RFC 3263).
    Dns {
        /// Name servers, queried in turn. An empty list uses those of `/etc/resolv.conf`. Names in `/etc/hosts` are not queried.
        restart servers: Vec<SocketAddr> = Vec::new(), any();

        /// How long a name server may take to answer before the query is retried.
        restart timeout: Duration = millis(800), between(millis(50), seconds(30));

        /// Number of retries for a query without an answer.
        restart attempts: usize = 2, between(0, 10);

        /// Maximum number of cached answers. Each is cached for its TTL, at most a day; negative answers for at most 15 minutes.
        restart cache_size: usize = 16_384, between(16, 10_000_000);
    }
}

section! {
    /// Registrations (RFC 3261 section 10).
    Registrar {
        /// Minimum lifetime of a binding. A REGISTER that asks for less is rejected with 423 and `Min-Expires`.
        reload min_expires: Duration = RegistrarSettings::default().min_expires, between(seconds(1), days(1));

        /// Lifetime of a binding if the phone does not ask for one.
        reload default_expires: Duration = RegistrarSettings::default().default_expires, between(seconds(1), days(30));

        /// Maximum lifetime of a binding. Longer requested lifetimes are shortened to this value.
        reload max_expires: Duration = RegistrarSettings::default().max_expires, between(seconds(1), days(30));

        /// Maximum number of contacts per address of record. A REGISTER with more is rejected with 403.
        reload max_contacts: usize = RegistrarSettings::default().max_contacts, between(1, 1_000);

        /// Send requests for a phone to the host in its `Contact`, even if its REGISTER came from another address. With `false`, they go
        /// to the address that the REGISTER came from. This reaches phones behind NAT, and no subscriber can direct calls to other
        /// addresses.
        reload follow_contact: bool = RegistrarSettings::default().follow_contact, any();
    }
}

section! {
    /// The location service, which stores the bindings.
    Location {
        /// Where bindings are stored. `"memory"` keeps them in memory and saves changes to the database within a fraction of a second.
        restart store: LocationStore = LocationStore::Memory, any();

        /// How often changed bindings are saved. All changes are written in one transaction or a few.
        reload save_interval: Duration = millis(20), between(millis(10), seconds(60));

        /// How much later than `save_interval` a registration that was answered 200 may reach the database. If saving falls behind,
        /// responses wait until their bindings are saved. If too many responses wait, registrations are answered 503.
        reload max_lag: Duration = seconds(1), between(millis(100), seconds(60));

        /// When registrations are answered. `"interval"` answers at once: if the process is killed, registrations of the last
        /// `save_interval` and `max_lag` may be lost. `"commit"` answers when the binding is in the database and the disk has confirmed
        /// it: no answered registration is lost, even if the machine loses power. Each response is then delayed by `save_interval` and the
        /// disk's write time.
        restart durability: Durability = Durability::Interval, any();
    }
}

section! {
    /// The timers of RFC 3261 section 17.1.1.1.
    Timers {
        /// Estimated round-trip time, and the first retransmission interval.
        reload t1: Duration = TimerSettings::default().t1, between(millis(10), seconds(10));

        /// Maximum retransmission interval of requests other than INVITE and of responses to INVITE.
        reload t2: Duration = TimerSettings::default().t2, between(millis(10), seconds(60));

        /// Maximum time that a message may stay in the network.
        reload t4: Duration = TimerSettings::default().t4, between(millis(10), seconds(60));
    }
}

section! {
    /// Dialogs of calls.
    Dialogs {
        /// Send BYE to both parties when a dialog has lived for `proxy.dialog_lifetime` without a refresh. Otherwise the call continues,
        /// but the server no longer knows it.
        reload bye_at_end: bool = false, any();

        /// Save calls in progress in the database, so that the server still knows them after a restart or a crash.
        restart persist: bool = true, any();

        /// How long changes of calls are gathered before they are saved. A call that ends within this time is never written. After a
        /// crash, the server does not know calls that were answered within this time.
        reload save_interval: Duration = seconds(1), between(millis(50), seconds(60));
    }
}

section! {
    /// Upper limits. A request that exceeds a limit is answered 503 with `Retry-After`.
    Limits {
        /// Server transactions per worker. Over UDP, each lives for about 32 seconds.
        reload server_transactions: usize = TableLimits::default().server_transactions, between(100, 50_000_000);

        /// Client transactions per worker.
        reload client_transactions: usize = TableLimits::default().client_transactions, between(100, 50_000_000);

        /// Forwarded requests per worker that wait for a final response.
        reload response_contexts: usize = TableLimits::default().response_contexts, between(100, 50_000_000);

        /// Dialogs of calls per worker, from the INVITE to the BYE. A dialog takes about 600 bytes.
        reload dialogs: usize = TableLimits::default().dialogs, between(100, 50_000_000);

        /// Requests per worker that wait for the database or a name server.
        reload parked_requests: usize = TableLimits::default().parked_requests, between(10, 1_000_000);

        /// Dialogs per worker whose Contact was refreshed during the dialog; each party counts. When the table is full, the oldest entries
        /// are evicted. One source has at most a quarter of the entries. A dialog whose entry is evicted keeps the Contact that it began
        /// with. An entry takes up to 320 bytes.
        reload refreshed_targets: usize = TableLimits::default().refreshed_targets, between(0, 10_000_000);

        /// Bytes of messages that each worker holds: requests that wait or may be retransmitted, and responses that may be retransmitted.
        /// One unproven source (an IPv4 address or an IPv6 /64 network) gets a sixteenth of this and of the tables above; all unproven
        /// sources together get three quarters. One source gets a quarter for its authenticated subscribers and a quarter for its dialogs.
        /// These shares do not apply to `proxy.trusted_peers`. Requests inside dialogs may exceed each table by half, and those without a
        /// body may also exceed the bytes by half.
        reload held_bytes: usize = TableLimits::default().held_bytes, between(1 << 20, 1 << 40);

        /// Maximum number of bytes sent over UDP per byte received, in response to a request whose sender is unproven. A higher value lets
        /// attackers use the server as an amplifier against other addresses.
        reload amplification: u32 = TableLimits::default().amplification, between(1, 1_000);

        /// How long a request waits for the database or a name server. After that, it is answered 500, or 504 for a name server. A change
        /// does not affect requests that already wait.
        reload question_deadline: Duration = settings().question_deadline, between(millis(50), seconds(30));

        /// Bindings in total.
        restart bindings: usize = 1_000_000, between(100, 100_000_000);

        /// Addresses of record whose changed bindings may wait for the database. If there are more, the server saves all bindings in one
        /// go.
        restart pending_changes: usize = 200_000, between(100, 100_000_000);

        /// Maximum number of header field lines in a message. A request with more is answered 400; a response with more is dropped.
        reload header_fields: usize = settings().max_header_fields, between(32, 512);

        /// Value of `Retry-After`, in seconds.
        reload retry_after: u32 = TableLimits::default().retry_after, between(1, 3_600);
    }
}

section! {
    /// The HTTP interface: health, metrics, JSON-RPC. Its clients have full control of the server. On a loopback address it needs no
    /// token; checks of the Host and Origin header fields keep web pages out.
    Admin {
        /// Address and port. An address that other machines can reach requires `token_file`.
        restart listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8060)), any();

        /// Names that clients may use for the interface (`Host`), in addition to `localhost` and IP addresses. Requests for other names
        /// are rejected with 421, because a web page can point its own name at this machine (DNS rebinding).
        restart hosts: Vec<DomainName> = Vec::new(), any();

        /// File with the token that clients must send as `Authorization: Bearer TOKEN`: 16 or more visible characters. `/health/live` and
        /// `/health/ready` need no token. If omitted, no request needs a token.
        restart token_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/admin.token".into())));

        /// Unix socket that serves the same interface. The file has mode 0600: only the user that runs the server can connect, and needs
        /// no token. `tandem ctl` prefers this socket.
        restart socket: Option<FilePath> = None, optional(Some(FilePath("/run/tandem/admin.sock".into())));
    }
}

section! {
    /// Records of calls: one for each call that has ended ([records](records.md)). Records wait in a queue for each destination and never
    /// delay a call.
    Records {
        /// File to which records are appended as JSON lines. If omitted, no file is written. The directory must exist. A reload opens the
        /// file again, and so does the next record after the file was renamed.
        restart file: Option<FilePath> = None, optional(Some(FilePath("/var/log/tandem/calls.jsonl".into())));

        /// Write records to the table `call_record` of the database, too.
        restart database: bool = false, any();

        /// Which failed calls are recorded. `"none"` records only answered calls; `"all"` also records calls that were never answered.
        reload failed: RecordedFailures = RecordedFailures::None, any();

        /// How long records stay in the database. Each node deletes only its own. Files are not affected.
        reload keep: Duration = days(30), between(hours(1), hours(87_660));

        /// How long records may be in the file before the disk has confirmed them. If the machine loses power, records of this time may be
        /// lost.
        reload sync_interval: Duration = seconds(1), between(millis(10), hours(1));

        /// Bytes of records that may wait for each destination, for example while its disk is full. Records beyond are lost and counted.
        /// A record takes about 1 KiB.
        restart queue: usize = 64 << 20, between(65_536, 17_179_869_184);
    }
}

section! {
    /// Events of calls, pushed to the readers of `GET /events` of the admin interface, and published to Redis or Valkey
    /// ([events](events.md)).
    Events {
        /// Maximum number of concurrent readers. Further ones are rejected with 503.
        restart max_readers: usize = 32, between(1, 10_000);

        /// Bytes of the latest events that the server keeps for all readers. A reader that falls behind further is disconnected; one that
        /// was disconnected can resume within them. Nothing is kept without readers.
        restart buffer: usize = 8 << 20, between(65_536, 1_073_741_824);

        /// Redis or Valkey server that every event is published to: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, of which only the host is
        /// necessary; `rediss:` with TLS, verified against the authorities that the operating system trusts; or
        /// `redis+unix:///PATH?user=USER&pass=PASSWORD`. Write special characters of the password as `%XX`. The log, the admin interface
        /// and `tandem check` do not show the password. If omitted, nothing is published.
        restart publish: Option<RedisUrl> = None, optional(RedisUrl::example());

        /// Channel that events are published to.
        restart publish_channel: String = "tandem.calls".to_owned(), any();

        /// Bytes of events that may wait to be published, for example while the server is away. Events beyond are dropped and counted. An
        /// event takes about 1 KiB.
        restart publish_queue: usize = 8 << 20, between(65_536, 1_073_741_824);
    }
}

section! {
    /// The server's log, written to standard error.
    Log {
        /// Minimum severity of log records.
        reload level: LogLevel = LogLevel::Info, any();

        /// Format of log records: `"text"` for people, `"json"` for programs.
        restart format: LogFormat = LogFormat::Text, any();

        /// Lines about calls, at level `info`, with the Call-ID ([the log](tracing.md#the-log)). `"ended"` writes one for each call that has
        /// ended or failed; `"all"` also writes one when it starts and one when it is answered.
        reload calls: CallLines = CallLines::None, any();
    }
}

section! {
    /// Copies of messages for a collector. `tandem ctl trace` needs none of this.
    Trace {
        /// Collector that gets a copy of every message, decrypted, as HEP version 3: `udp:` with address and port. Homer, heplify-server
        /// and sngrep read it. Packets are not encrypted, and contain the digest responses of phones: send them only over a network that
        /// you trust. The server drops what the collector or the network does not take, and never waits for it.
        reload hep: Option<HepCollector> = None, optional(Some(HepCollector(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 5), 9060)))));

        /// Number by which the collector knows this server (capture agent ID).
        reload hep_agent: u32 = 2_001, between(0, u32::MAX);

        /// Authentication key that the collector expects, sent in clear text. If empty, packets carry no key.
        reload hep_key: String = String::new(), any();
    }
}

section! {
    /// UDP sockets.
    Udp {
        /// Receive buffer to request from the kernel for each socket, in bytes. The log and the metrics show the granted size. The kernel
        /// grants more than `net.core.rmem_max` only to a privileged process.
        restart receive_buffer: usize = Options::default().receive_buffer, between(65_536, 1_073_741_824);

        /// Pass messages to one address that are ready at the same time to the kernel as one buffer, which the kernel splits
        /// (`UDP_SEGMENT`). This saves CPU time if much traffic goes to few addresses, such as trunks and other servers. Messages longer
        /// than 1,200 bytes are sent individually, and so are all messages if the kernel does not support segmentation.
        restart segmentation: bool = Options::default().segmentation, any();

        /// Let the kernel deliver each datagram to the home worker of its call, regardless of its source address. This saves CPU time with
        /// several workers, and spreads the traffic of one trunk over all of them. If the kernel does not accept the program for it (the
        /// log says so), or with `share_port`, workers hand messages over to the home worker.
        restart steering: bool = Options::default().steering, any();

        /// Allow another process to be bound to the same address already, and share its traffic. With `false`, the server refuses to
        /// share, because a forgotten process would silently take half of the requests.
        restart share_port: bool = Options::default().share_port, any();
    }
}

section! {
    /// TCP and the transports on top of it. Deadlines close connections whose peers are slow, silent or send invalid data. The metrics
    /// count these by reason.
    Connections {
        /// Maximum number of connections, over all workers. If omitted, as many as the limit of open files (`RLIMIT_NOFILE`) allows; the
        /// server raises that limit as far as the system permits. There are never more than that limit leaves: the server reserves
        /// descriptors for the admin interface, the database, the log and connections that it opens.
        restart max: Option<usize> = None, optional_between(10, 1_000_000, 20_000);

        /// Maximum number of connections from one IPv4 address or one IPv6 /64 network, over all workers. Connections of
        /// `proxy.trusted_peers` do not count. If omitted, 1,000, but at most a quarter of all connections.
        restart max_per_peer: Option<u32> = None, optional_between(1, 1_000_000, 1_000);

        /// Maximum size of a message's start line and header fields, in bytes.
        restart max_header: usize = StreamOptions::default().max_header, between(1_024, 65_536);

        /// Maximum size of a message's body, in bytes.
        restart max_body: usize = StreamOptions::default().max_body, between(1_024, 196_608);

        /// Maximum number of bytes queued for one peer. A message that does not fit is not sent, and its peer is treated as unreachable.
        restart max_queue: usize = StreamOptions::default().max_queue, between(65_536, 67_108_864);

        /// Maximum number of bytes queued for all peers together. Each worker has an equal share, of which strangers can fill at most
        /// three quarters.
        restart max_queued: usize = StreamOptions::default().max_queued, between(1_048_576, 17_179_869_184);

        /// Maximum number of bytes that incomplete messages may take in all connections together. Each worker has an equal share. Beyond
        /// it, the worker closes the connection whose message has been incomplete for the longest time.
        restart max_partial: usize = StreamOptions::default().max_partial, between(1_048_576, 17_179_869_184);

        /// Maximum number of bytes that the connections from one IPv4 address or one IPv6 /64 network may hold in both directions, over
        /// all workers. Connections of `proxy.trusted_peers` do not count. Set this higher than `max_queue`.
        restart max_held_per_peer: usize = StreamOptions::default().max_held_per_peer, between(262_144, 17_179_869_184);

        /// Origins whose pages may open a WebSocket, such as `"https://phone.example.org"`. The origins of the server's domains and of the
        /// host that the page connects to are always allowed (over `ws:` only if that host is an IP address or `localhost`). `"*"` allows
        /// all pages. Clients that send no origin are not browsers and may connect.
        reload origins: Vec<Origin> = Vec::new(), any();

        /// Which peers may claim that requests to their address and the port in their Via use the connection that they opened (`alias`,
        /// RFC 5923). `"certified"` trusts peers with a client certificate that the server trusts.
        restart aliases: Aliases = StreamOptions::default().aliases, any();

        /// How long opening a connection may take, including its handshake and the first write.
        restart open_timeout: Duration = StreamOptions::default().open_timeout, between(seconds(1), seconds(60));

        /// How long an accepted connection may take until its first message.
        restart silent_timeout: Duration = StreamOptions::default().silent_timeout, between(seconds(1), hours(1));

        /// How long a message may take from its first byte to its last.
        restart message_timeout: Duration = StreamOptions::default().message_timeout, between(seconds(1), hours(1));

        /// How long a peer may read none of the data queued for it.
        restart write_timeout: Duration = StreamOptions::default().write_timeout, between(seconds(1), hours(1));

        /// How long an accepted connection may go without a message while its peer is a stranger: until one of its requests is
        /// authenticated or belongs to a dialog, or one of its calls rings. Keep-alives do not count. After eight times this duration, the
        /// connection is closed regardless of its traffic. Peers in `proxy.trusted_peers` are not strangers.
        restart unproven_timeout: Duration = seconds(32), between(seconds(1), hours(1));

        /// How long a connection may be idle once its peer is no longer a stranger. Keep-alives count as traffic.
        restart idle_timeout: Duration = StreamOptions::default().idle_timeout, between(seconds(10), days(7));

        /// Idle time after which the kernel probes whether the peer is still there (`SO_KEEPALIVE`).
        restart keep_alive: Duration = StreamOptions::default().keep_alive, between(seconds(10), hours(2));
    }
}

section! {
    /// How the server shuts down.
    Shutdown {
        /// How long calls in setup may take to finish after SIGTERM. A second signal ends the server immediately.
        reload drain_timeout: Duration = seconds(30), between(seconds(0), hours(1));
    }
}

impl Configuration {
    /// How to read the tables of a Kamailio; `None`: the database is Tandem's own.
    pub fn kamailio(&self) -> Option<&KamailioTables> {
        match &self.database.schema {
            Schema::Kamailio(tables) => Some(tables),
            Schema::Tandem => None,
        }
    }

    /// Whether calls in progress are saved. A database of Kamailio has no place for them.
    pub fn saves_dialogs(&self) -> bool {
        self.dialogs.persist && self.kamailio().is_none()
    }
}

impl Listen {
    /// The listeners of a file without a `[[listen]]` section.
    pub fn defaults() -> Vec<Self> {
        [Protocol::Udp, Protocol::Tcp]
            .map(|transport| Self {
                transport,
                ..Self::default()
            })
            .into()
    }
}

/// The example value of `proxy.outbound` in the reference.
pub(super) fn example_next_hop() -> NextHop {
    NextHop(Destination {
        host: "trunk.example.net".into(),
        port: None,
        protocol: None,
        secure: false,
    })
}

/// The methods that other domains may send by default, as far as they can be listed in a file.
fn stranger_methods() -> Vec<StrangerMethod> {
    let methods = ProxySettings::default().stranger_methods;
    methods.into_iter().map(StrangerMethod).collect()
}

/// The settings of a worker that tests and fuzzing use.
fn settings() -> Settings {
    Settings::new(&[], Vec::new())
}
