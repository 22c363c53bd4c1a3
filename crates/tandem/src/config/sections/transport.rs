//! The sections about listeners, certificates, connections and DNS.
use crate::config::catalogue::{any, between, optional, optional_between, required};
use crate::config::declare::{choice, section};
use crate::config::values::duration::{days, hours, millis, seconds};
use crate::config::values::host::{Advertised, FilePath};
use crate::config::values::origin::Origin;
use sip_runtime::tls::{TlsSettings, TlsVersion};
use sip_runtime::{Aliases, Options, StreamOptions};
use sip_transport::Protocol;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

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
