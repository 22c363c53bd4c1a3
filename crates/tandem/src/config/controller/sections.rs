//! The catalogue of all keys of the controller.

use crate::config::catalogue::{any, between, optional, required};
use crate::config::declare::{choice, section};
use crate::config::values::duration::{hours, millis, seconds};
use crate::config::values::host::{DatabaseUrl, DomainName, FilePath};
use crate::config::values::keyword::{LogFormat, LogLevel};
use crate::config::values::node_name::NodeName;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

section! {
    /// The controller of a fleet has no keys above the first section.
    ControllerConfiguration {
        /// The API.
        section api: Api;

        /// Membership.
        section members: Members;

        /// Nodes of a static fleet.
        section member: Vec<ListedMember>;

        /// How nodes are asked.
        section nodes: Nodes;

        /// The database of the nodes.
        section database: NodesDatabase;

        /// The interface for autoscalers.
        section custom_metrics: Option<CustomMetrics>;

        /// The log.
        section log: ControllerLog;
    }
}

section! {
    /// The interface for operators, hooks and edges ([controller](controller.md#api)). Its clients decide which nodes get calls, so they
    /// all need the token. It speaks no TLS: use a private network.
    Api {
        /// Address and port.
        restart listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8061)), any();

        /// Names that clients may use for the interface (`Host`), in addition to `localhost` and IP addresses, such as that of the Service.
        /// Requests for other names are rejected with 421.
        restart hosts: Vec<DomainName> = Vec::new(), any();

        /// File with the token that clients must send as `Authorization: Bearer TOKEN`: 16 or more visible characters. `/health/live` and
        /// `/health/ready` need no token.
        restart token_file: FilePath = FilePath("/etc/tandem/fleet.token".into()), required();

        /// Maximum number of edges that follow the member set. Further ones are rejected with 503.
        restart max_watchers: usize = 64, between(1, 10_000);

        /// How long an edge may take to read a member set before it is disconnected.
        restart watcher_timeout: Duration = seconds(10), between(millis(100), seconds(600));
    }
}

section! {
    /// Which nodes there are.
    Members {
        /// How long a node that disappears from its source still serves the calls that it has. It gets no new calls.
        restart grace: Duration = seconds(30), between(seconds(0), hours(24));

        /// File in which the orders of operators (drain, remove) outlive a restart of the controller. Its directory must exist. If omitted,
        /// a controller that starts again knows only what the source says.
        restart state_file: Option<FilePath> = None, optional(Some(FilePath("/var/lib/tandem/control.json".into())));

        /// Port of the nodes' admin interfaces, for nodes without an address of their own for it. With `members.source = "api"`, the record
        /// of a node names it (`admin`).
        restart admin_port: u16 = 8060, between(1, 65_535);

        /// The source.
        inline source: MemberSource;
    }
}

choice! {
    /// Where the members come from.
    MemberSource {
        /// Where the members come from. `"static"`: the sections `[[member]]`. `"api"`: operators and hooks enable and remove them; this
        /// requires `members.state_file`. `"dns"`: the records of a name. `"kubernetes"`: the `EndpointSlices` of a Service. In all of
        /// them, the API can drain and remove nodes. A source that fails or lists no node changes nothing.
        restart source = {
            /// The configuration.
            Static = "static",
            /// The API.
            Api = "api",
            /// DNS.
            Dns(DnsMembers) = "dns",
            /// Kubernetes.
            Kubernetes(KubernetesMembers) = "kubernetes",
        }
    }
}

section! {
    /// Members from DNS.
    DnsMembers {
        /// Name of the nodes. A name that begins with an underscore has SRV records; the first label of a target is then the instance and
        /// the name of a node. Other names have A or AAAA records, and the instance of a node is its address with the port, such as
        /// `10.0.0.5:5060`. `fleet.instance` of the nodes must say the same.
        restart name: String = "_sip._udp.tandem-nodes.default.svc.cluster.local".to_owned(), required();

        /// SIP port of the nodes. SRV records have their own.
        restart port: u16 = 5060, between(1, 65_535);

        /// Time between two lookups.
        restart refresh: Duration = seconds(5), between(millis(100), hours(1));

        /// Name servers; if empty, those of `/etc/resolv.conf`.
        restart servers: Vec<SocketAddr> = Vec::new(), any();
    }
}

section! {
    /// Members from Kubernetes.
    KubernetesMembers {
        /// Service of the nodes. The instance of a node is the UID of its pod.
        restart service: String = "tandem-nodes".to_owned(), required();

        /// Namespace of the Service; by default that of the controller's own pod.
        restart namespace: Option<String> = None, optional(Some("default".to_owned()));

        /// Name of the SIP port in the Service. All ports with the same number are transports of it.
        restart port_name: String = "sip".to_owned(), any();

        /// The API server.
        restart server: String = "https://kubernetes.default.svc".to_owned(), any();

        /// File with the token of the service account, which may list and watch `EndpointSlices`. It is read again for each request.
        restart token_file: FilePath = FilePath("/var/run/secrets/kubernetes.io/serviceaccount/token".into()), any();

        /// File with the certificate authority of the API server.
        restart authority_file: FilePath = FilePath("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".into()), any();

        /// Whether the live calls of each pod become its `controller.kubernetes.io/pod-deletion-cost`, so that Kubernetes ends the pods with
        /// the fewest calls first. The service account must be allowed to patch pods.
        restart deletion_costs: bool = true, any();
    }
}

section! {
    /// A node of a static fleet (`members.source = "static"`).
    ListedMember {
        /// Name of the node (`node.name`).
        restart name: NodeName = NodeName::default(), required();

        /// Instance of the node (`fleet.instance`); by default its name.
        restart instance: Option<String> = None, optional(Some("sip-1-a".to_owned()));

        /// Address and port at which the node takes SIP from edges.
        restart address: SocketAddr = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 11), 5060)), required();

        /// Address and port of the node's admin interface; by default `members.admin_port` at its address.
        restart admin: Option<SocketAddr> = None, optional(Some(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 11), 8060))));
    }
}

section! {
    /// How the nodes are asked for registrations, histograms and their load.
    Nodes {
        /// File with the admin token of the nodes (`admin.token_file` there). If omitted, they need none.
        restart token_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/admin.token".into())));

        /// Time for the answer of a node.
        restart timeout: Duration = seconds(5), between(millis(100), seconds(60));
    }
}

section! {
    /// The database of the nodes, for test users.
    NodesDatabase {
        /// Database in which `POST /v1/users` adds subscribers: as `database.url` of the nodes. If omitted, the controller adds none.
        restart url: Option<DatabaseUrl> = None, optional(Some(DatabaseUrl("postgres://tandem@db.example.org/tandem".to_owned())));
    }
}

section! {
    /// The API `custom.metrics.k8s.io`, from which the `HorizontalPodAutoscaler` of Kubernetes reads the load of the nodes
    /// ([controller](controller.md#autoscaling)). If omitted, it is not served.
    CustomMetrics {
        /// Address and port, over TLS.
        restart listen: SocketAddr = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8443)), any();

        /// File with the certificate chain in PEM.
        restart chain: FilePath = FilePath("/etc/tandem/metrics.pem".into()), required();

        /// File with the private key in PEM.
        restart key: FilePath = FilePath("/etc/tandem/metrics.key".into()), required();

        /// File with the authority of the certificate that clients must show: `requestheader-client-ca-file` of the API server. If omitted,
        /// everybody who reaches the port can read the load.
        restart client_authority: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/front-proxy-ca.pem".into())));

        /// Namespace of the nodes; by default that of the controller's own pod.
        restart namespace: Option<String> = None, optional(Some("default".to_owned()));
    }
}

section! {
    /// The controller's log, written to standard error.
    ControllerLog {
        /// Minimum severity of log records.
        restart level: LogLevel = LogLevel::Info, any();

        /// Format of log records: `"text"` for people, `"json"` for programs.
        restart format: LogFormat = LogFormat::Text, any();
    }
}
