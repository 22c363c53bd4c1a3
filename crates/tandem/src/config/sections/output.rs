//! The sections about what operators and other programs see: administration, records, events, log, trace.
use crate::config::catalogue::{any, between, optional};
use crate::config::declare::section;
use crate::config::values::duration::{days, hours, millis, seconds};
use crate::config::values::host::{DomainName, FilePath, HepCollector};
use crate::config::values::keyword::{CallLines, LogFormat, LogLevel, RecordedFailures};
use crate::config::values::redis_url::RedisUrl;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

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
