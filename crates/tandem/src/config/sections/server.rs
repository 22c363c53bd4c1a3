//! The sections about the process as a whole: workers, overload, its place in a fleet, the limits of its tables, how it ends.
use super::settings;
use crate::config::catalogue::{any, between};
use crate::config::declare::section;
use crate::config::values::duration::{hours, micros, millis, seconds};
use crate::config::values::host::Count;
use crate::config::values::node_name::NodeName;
use sip_elements::TableLimits;
use sip_runtime::{EventLoopKind, Options};
use sip_transport::overload::OverloadSettings;
use std::time::Duration;

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
    /// How the server shuts down.
    Shutdown {
        /// How long calls in setup may take to finish after SIGTERM. A second signal ends the server immediately.
        reload drain_timeout: Duration = seconds(30), between(seconds(0), hours(1));
    }
}
