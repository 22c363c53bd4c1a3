//! The configuration of `tandem balance`. Sections that `tandem serve` has too are the same ones.
use super::{Admin, Certificate, Connections, Dns, Listen, Log, Overload, Tls, Udp, Workers};
use crate::config::catalogue::{any, between, optional, required};
use crate::config::declare::section;
use crate::config::values::controller_url::ControllerUrl;
use crate::config::values::duration::{millis, seconds};
use crate::config::values::host::FilePath;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

section! {
    /// An edge of a fleet: it owns the addresses and connections that clients know, and spreads calls over nodes.
    Balancer {
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

        /// What all edges and nodes share.
        section fleet: EdgeFleet;

        /// The nodes, one by one.
        section member: Vec<FleetMember>;

        /// The nodes together.
        section nodes: FleetNodes;

        /// Name resolution.
        section dns: Dns;

        /// UDP sockets.
        section udp: Udp;

        /// Connections.
        section connections: Connections;

        /// The HTTP interface.
        section admin: Admin;

        /// The log.
        section log: Log;
    }
}

section! {
    /// What the edges and nodes of a fleet share.
    EdgeFleet {
        /// File with the secret of the fleet: 32 or more bytes, the same for all edges and nodes. It proves what edges and nodes write into
        /// messages. If omitted, the edge draws a secret: it then works alone, its calls end with it, and nodes do not learn the addresses of
        /// clients.
        restart secret_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/fleet.secret".into())));
    }
}

section! {
    /// A node. An edge needs at least one. Any SIP server can be a node; it must send from the address where it listens.
    FleetMember {
        /// Identity of the node, unique in the fleet. Calls refer to it, so it must not change while the node has calls.
        reload instance: String = "sip-1".to_owned(), required();

        /// Address and port where the node listens.
        reload address: SocketAddr = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 11), 5060)), required();

        /// Whether the node also listens there over TCP. Messages that are longer than `nodes.largest_datagram` then go over TCP.
        reload tcp: bool = true, any();

        /// Whether the node drains: it keeps its calls and gets no new ones.
        reload draining: bool = false, any();
    }
}

section! {
    /// How the edge treats its nodes.
    FleetNodes {
        /// JSON file with the nodes, instead of `[[member]]`. The edge reads it again when it changes. A file that is empty, invalid or
        /// missing changes nothing, and the log says so.
        restart file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/members.json".into())));

        /// Controller that tells the edge which nodes there are ([controller](controller.md)). The edge starts with `[[member]]` or `file`, if
        /// one of them is set, and otherwise waits for the controller. It keeps the last nodes while the controller is away.
        restart controller: Option<ControllerUrl> = None, optional(ControllerUrl::example());

        /// File with the token of the controller's interface.
        restart token_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/fleet.token".into())));

        /// Addresses of the listeners that only nodes use. If empty, every listener takes requests of nodes, and the source address of a
        /// request says whether it comes from a node. Use separate listeners if senders on the network of the clients can forge addresses.
        restart listeners: Vec<SocketAddr> = Vec::new(), any();

        /// Whether the edge adds itself to Record-Route and Path. With `false`, later requests of a call bypass the edge.
        restart record_route: bool = true, any();

        /// Longest message that is sent to a node over UDP, in bytes.
        restart largest_datagram: usize = 1_300, between(500, 65_000);

        /// How often each node is probed with OPTIONS. A node that gets no probe for 2.5 s takes the edge for gone, and answers through another
        /// one.
        restart probe_interval: Duration = millis(500), between(millis(100), seconds(1));

        /// Number of unanswered probes in a row after which a node counts as dead. An ICMP error counts at once.
        restart probe_misses: u32 = 3, between(1, 100);

        /// Bytes of requests that came over connections and wait for the first response of a node. The edge sends them again in the meantime.
        /// The clients of one address take at most a sixteenth.
        restart unanswered: usize = 64 << 20, between(1 << 20, 1 << 34);
    }
}
