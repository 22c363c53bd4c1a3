//! The sections about who may do what: authentication, bans, registrations.
use super::settings;
use crate::config::catalogue::{any, between, not_empty};
use crate::config::declare::section;
use crate::config::values::duration::{days, hours, seconds};
use crate::config::values::host::AgentName;
use sip_elements::bans::BanSettings;
use sip_elements::{ChallengedMethods, RegistrarSettings};
use sip_message::digest::Algorithm;
use std::time::Duration;

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
