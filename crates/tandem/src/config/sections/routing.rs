//! The sections about where new calls go, and whether they may: networks, gateways, groups, prefixes, limits and rules.
use super::calls::example_next_hop;
use super::kamailio::KamailioPrefixes;
use crate::config::catalogue::{any, between, optional, optional_between, required};
use crate::config::declare::{choice, section};
use crate::config::gateway_account::GatewayAccount;
use crate::config::routing_identity::GatewayNumbers;
use crate::config::values::duration::{hours, millis, seconds};
use crate::config::values::host::{FilePath, NextHop};
use crate::config::values::network::Network;
use crate::config::values::routing::{
    ColumnName, GroupMember, HeaderField, HeaderMatch, TableName,
};
use sip_routing::gateway::{
    Algorithm, AllInactive, FailoverRules, HealthRules, StatusSet, WaitRules,
};
use sip_routing::limit::{MAX_BURST, MAX_KEYS, MAX_RATE};
use sip_routing::rule::{Authentication, HeaderDescription};
use sip_transport::Protocol;
use std::net::IpAddr;
use std::time::Duration;

section! {
    /// A named set of addresses, such as those of a carrier or a customer. Limits and rules refer to it
    /// ([routing](routing.md#networks)). A network is not trusted because it has a name: that is what rules with
    /// `authenticate = "trust"` and `proxy.trusted_peers` are for.
    NamedNetwork {
        /// Its name. Each network has a name of its own.
        reload name: String = "carrier-a".to_owned(), required();

        /// Its networks and addresses.
        reload addresses: Vec<Network> = vec![Network(IpAddr::from([192, 0, 2, 7]).into())], required();
    }
}

section! {
    /// A server that new calls go to: a carrier, a trunk, a PBX ([routing](routing.md#gateways)). Groups choose among gateways. The name
    /// is the identity of a gateway: a reload keeps its state, its calls and its statistics.
    Gateway {
        /// Its name: 1 to 128 visible ASCII characters.
        reload name: String = "berlin-1".to_owned(), required();

        /// Where it is: an address, or a name whose servers are found by NAPTR, SRV and address records (RFC 3263).
        reload destination: NextHop = example_next_hop(), required();

        /// Credentials and registration.
        inline account: GatewayAccount;

        /// Maximum number of calls at a time. If omitted, there is no maximum. To take a gateway out, use `tandem ctl gateways disable`.
        reload max_calls: Option<u32> = None, optional_between(1, u32::MAX, 300);

        /// New calls per second; fractions are possible. A call beyond goes to another gateway of its group. If omitted, there is no
        /// maximum.
        reload calls_per_second: Option<f64> = None, optional_between(0.001, MAX_RATE, 30.0);

        /// Calls that may arrive at once within `calls_per_second`. If omitted, as many as the rate brings in a second.
        reload burst: Option<u32> = None, optional_between(1, MAX_BURST, 60);

        /// Numbers and identities.
        inline numbers: GatewayNumbers;

        /// Probe the gateway with OPTIONS. With `false`, an inactive gateway gets one call in each `probe_interval` as a trial.
        reload probe: bool = HealthRules::default().probe, any();

        /// Time between two probes.
        reload probe_interval: Duration = HealthRules::default().interval, between(seconds(1), hours(1));

        /// How long a probe waits for its final response. Must not be longer than `probe_interval`.
        reload probe_timeout: Duration = HealthRules::default().timeout, between(millis(100), hours(1));

        /// Final responses to a probe that count as an answer. All other outcomes are misses.
        reload probe_codes: StatusSet = HealthRules::default().probe_answers, any();

        /// Consecutive misses until the gateway goes inactive. Failed calls count, too.
        reload misses: u8 = HealthRules::default().misses, between(1, 100);

        /// Consecutive answers until an inactive gateway returns.
        reload answers: u8 = HealthRules::default().answers, between(1, 100);

        /// How many misses a call without a response counts.
        reload timeout_misses: u8 = HealthRules::default().weights.timeout, between(0, 100);

        /// How many misses a call counts that could not be sent: connection refused or lost, ICMP error.
        reload transport_error_misses: u8 = HealthRules::default().weights.transport_error, between(0, 100);

        /// How many misses a 503 counts. Use 0 for a gateway that answers 503 for a number that is out of service.
        reload unavailable_misses: u8 = HealthRules::default().weights.unavailable, between(0, 100);

        /// Maximum time that the gateway gets no calls after a 503 with `Retry-After`. `"0s"` ignores `Retry-After`.
        reload longest_rest: Duration = HealthRules::default().longest_rest, between(seconds(0), hours(1));

        /// Responses, from 300 to 599, after which a call tries the next gateway of its group. It always does after 503, and never after
        /// 6xx.
        reload failover_codes: StatusSet = FailoverRules::default().codes, any();

        /// Try the next gateway after a call without a response.
        reload failover_on_timeout: bool = FailoverRules::default().timeout, any();

        /// Try the next gateway after a call that could not be sent.
        reload failover_on_transport_error: bool = FailoverRules::default().transport_error, any();

        /// How long a call waits for a response other than 100. Then it is cancelled there, and tries the next gateway. It counts as a call
        /// without a response.
        reload response_timeout: Duration = WaitRules::default().response, between(seconds(1), hours(1));

        /// How long a call may stay unanswered here, however often it rings. Then it is cancelled here, and tries the next gateway; without
        /// one, the caller gets 408. If omitted, `proxy.timer_c` and `proxy.max_ringing` decide.
        reload answer_timeout: Option<Duration> = None, optional_between(seconds(1), hours(1), seconds(45));

        /// Try the next gateway even if the caller has heard this one already (early media).
        reload failover_after_early_media: bool = FailoverRules::default().after_early_media, any();
    }
}

section! {
    /// A group of gateways that calls choose from ([routing](routing.md#groups)). Rules and prefixes refer to it.
    GatewayGroup {
        /// Its name: 1 to 128 visible ASCII characters.
        reload name: String = "berlin".to_owned(), required();

        /// How a call chooses among members of one priority; all follow the weights. `"rendezvous"` hashes the Call-ID: a member that
        /// joins or leaves moves only its own share of the calls. `"round_robin"` takes turns. `"random"` draws by a hash of the Call-ID.
        /// `"least_calls"` takes the member with the fewest calls for its weight.
        reload algorithm: Algorithm = Algorithm::default(), any();

        /// What happens to calls while no gateway of any of their groups is up. `"try"` tries inactive members anyway, because probes can
        /// be wrong about all gateways at once; `"refuse"` does not. If no group tries its members, the caller gets 503 at once.
        reload all_inactive: AllInactive = AllInactive::default(), any();

        /// The gateways, 1 to 64: names, or tables such as `{ gateway = "berlin-1", weight = 2, priority = 0 }`. `weight`, from 1 to 1000
        /// and by default 1, is the share among members of one `priority`. Members with the lowest `priority`, by default 0, get the calls;
        /// the next ones only if no member before them takes the call.
        reload members: Vec<GroupMember> = vec![GroupMember::named("berlin-1")], required();
    }
}

section! {
    /// A limit for calls ([routing](routing.md#limits)). With `networks`, it counts all calls that come from them; without, the calls of the
    /// rules that name it. The name is the identity of a limit: a reload keeps its calls.
    CallLimit {
        /// Its name. `overall`, `source` and `subscriber` are reserved for the limits in `[call_limits]`, `none` for rules.
        reload name: String = "customer-7".to_owned(), required();

        /// Names of `[[network]]` sections, networks and addresses. A call counts towards the smallest network that contains its source.
        reload networks: Option<Vec<String>> = None, optional(Some(vec!["carrier-a".to_owned()]));

        /// Maximum number of calls at a time. 0 admits none. If omitted, there is no maximum.
        reload max_calls: Option<u32> = None, optional_between(0, u32::MAX, 30);

        /// New calls per second; fractions are possible. 0 admits none. If omitted, there is no maximum.
        reload calls_per_second: Option<f64> = None, optional_between(0.0, MAX_RATE, 5.0);

        /// Calls that may arrive at once within `calls_per_second`. If omitted, as many as the rate brings in a second.
        reload burst: Option<u32> = None, optional_between(1, MAX_BURST, 10);
    }
}

section! {
    /// Limits for all calls together, for each source and for each subscriber ([routing](routing.md#limits)). A call that exceeds one is
    /// refused before it is forwarded. Nothing is limited by default.
    CallLimits {
        /// Maximum number of calls at a time.
        reload max_calls: Option<u32> = None, optional_between(0, u32::MAX, 60_000);

        /// New calls per second; fractions are possible.
        reload calls_per_second: Option<f64> = None, optional_between(0.0, MAX_RATE, 1_000.0);

        /// Calls that may arrive at once within `calls_per_second`. If omitted, as many as the rate brings in a second.
        reload burst: Option<u32> = None, optional_between(1, MAX_BURST, 2_000);

        /// As `max_calls`, for each source: an IPv4 address or an IPv6 /64 network.
        reload source_max_calls: Option<u32> = None, optional_between(0, u32::MAX, 1_000);

        /// As `calls_per_second`, for each source.
        reload source_calls_per_second: Option<f64> = None, optional_between(0.0, MAX_RATE, 50.0);

        /// As `burst`, for each source.
        reload source_burst: Option<u32> = None, optional_between(1, MAX_BURST, 100);

        /// Maximum number of sources with counts of their own. Further ones share counts.
        reload source_table: usize = 65_536, between(1, MAX_KEYS);

        /// As `max_calls`, for each subscriber.
        reload subscriber_max_calls: Option<u32> = None, optional_between(0, u32::MAX, 4);

        /// As `calls_per_second`, for each subscriber.
        reload subscriber_calls_per_second: Option<f64> = None, optional_between(0.0, MAX_RATE, 1.0);

        /// As `burst`, for each subscriber.
        reload subscriber_burst: Option<u32> = None, optional_between(1, MAX_BURST, 5);

        /// Maximum number of subscribers with counts of their own. Further ones share counts.
        reload subscriber_table: usize = 262_144, between(1, MAX_KEYS);
    }
}

section! {
    /// A routing rule ([routing](routing.md#rules)). For each request outside a dialog, the first rule whose conditions all hold decides; the
    /// order is that of the file. A condition that is omitted holds for every request, and a list holds if one of its entries does. In
    /// patterns, `*` stands for any characters, `?` for one, `[0-4]` for one of several, and `\` makes the next character ordinary.
    RoutingRule {
        /// Its name, which is also the name of its counter.
        reload name: String = "to-berlin".to_owned(), required();

        /// Methods. ACK and CANCEL follow their INVITE.
        reload method: Option<Vec<String>> = None, optional(Some(vec!["INVITE".to_owned()]));

        /// Where the request comes from: names of `[[network]]` sections, networks and addresses.
        reload source: Option<Vec<String>> = None, optional(Some(vec!["carrier-a".to_owned()]));

        /// Listeners that the request arrived on, each as transport, colon and address. A wildcard address stands for all addresses.
        reload listener: Option<Vec<String>> = None, optional(Some(vec!["udp:0.0.0.0:5060".to_owned()]));

        /// Transports that the request arrived over.
        reload transport: Option<Vec<Protocol>> = None, optional(Some(vec![Protocol::Udp]));

        /// Patterns for the user of the Request-URI. Telephone numbers are compared without visual separators and parameters, and their
        /// letters A to D in either case.
        reload user: Option<Vec<String>> = None, optional(Some(vec!["+4930*".to_owned(), "030*".to_owned()]));

        /// Patterns for the domain of the Request-URI.
        reload domain: Option<Vec<String>> = None, optional(Some(vec!["*.example.org".to_owned()]));

        /// Patterns for the user of From.
        reload from_user: Option<Vec<String>> = None, optional(Some(vec!["alice".to_owned()]));

        /// Patterns for the domain of From.
        reload from_domain: Option<Vec<String>> = None, optional(Some(vec!["example.org".to_owned()]));

        /// Patterns for the user of To.
        reload to_user: Option<Vec<String>> = None, optional(Some(vec!["+49*".to_owned()]));

        /// Patterns for the domain of To.
        reload to_domain: Option<Vec<String>> = None, optional(Some(vec!["example.org".to_owned()]));

        /// Header fields: a name if the field must exist, or a name and a pattern for one of its values. One entry must hold.
        reload header: Option<Vec<HeaderMatch>> = None, optional(Some(vec![customer_header()]));

        /// What happens to the request.
        inline decision: RuleDecision;

        /// How the sender is authenticated. `"digest"`: the sender must be one of your subscribers. `"trust"`: the sender is a trusted peer,
        /// without credentials; its identity header fields are kept. `"never"`: the sender is not challenged and is treated as a
        /// stranger. It may use what the rule gives, such as a gateway. If omitted, as without rules.
        reload authenticate: Option<Authentication> = None, optional(Some(Authentication::Digest));

        /// Name of a `[[limit]]` without networks that the calls of this rule count towards. With `"none"`, its calls pass all limits and
        /// count for none, also those of their network, their subscriber and all calls: for emergency calls.
        reload limit: Option<String> = None, optional(Some("customer-7".to_owned()));

        /// Number of characters to remove at the beginning of the user of the Request-URI.
        reload strip: u8 = 0, between(0, 32);

        /// Text to put in front of the user of the Request-URI, after `strip`: up to 32 letters, digits, `+` and `*`.
        reload prefix: Option<String> = None, optional(Some("0049".to_owned()));

        /// Header fields to add to the forwarded request.
        reload add_header: Vec<HeaderField> = Vec::new(), any();

        /// Names of header fields to remove from the forwarded request.
        reload remove_header: Vec<String> = Vec::new(), any();

        /// Header fields to set in the forwarded request, in place of those with the same name.
        reload replace_header: Vec<HeaderField> = Vec::new(), any();
    }
}

choice! {
    /// What a rule does.
    RuleDecision {
        /// What happens to the request. `"local"`: it goes the ordinary way (registrar, location service, `proxy.outbound`), with what else
        /// the rule says. `"refuse"`: it is answered with `status`. `"redirect"`: it is answered 302. `"group"`: it goes to a gateway group.
        /// `"prefixes"`: the called number decides. `"stateless"`: it is forwarded without a transaction. `"balance"`: it goes to a gateway
        /// of a group without a transaction.
        reload action = {
            /// The ordinary way.
            Local = "local",
            /// An answer.
            Refuse(Refusal) = "refuse",
            /// 302.
            Redirect(Redirection) = "redirect",
            /// To a gateway group.
            Group(ToGroup) = "group",
            /// By the called number.
            Prefixes(ByPrefix) = "prefixes",
            /// Without a transaction.
            Stateless(Stateless) = "stateless",
            /// Without a transaction, to a gateway group.
            Balance(Balance) = "balance",
        }
    }
}

section! {
    /// How a rule refuses.
    Refusal {
        /// Status code.
        reload status: u16 = 403, between(300, 699);

        /// Reason phrase. If omitted, that of the RFC.
        reload reason: Option<String> = None, optional(Some("Number blocked".to_owned()));

        /// Value of `Retry-After`, in seconds.
        reload retry_after: Option<u32> = None, optional_between(0, u32::MAX, 60);
    }
}

section! {
    /// Where a rule redirects to.
    Redirection {
        /// Contacts of the response, the best first: `sip`, `sips` or `tel` URIs.
        reload redirect: Vec<String> = vec!["sip:+4930123@other.example.org".to_owned()], required();
    }
}

section! {
    /// The group of a rule.
    ToGroup {
        /// Name of a `[[group]]`.
        reload group: String = "berlin".to_owned(), required();
    }
}

section! {
    /// The prefix table of a rule.
    ByPrefix {
        /// Name of a prefix table: a value of the column with the callers' group in the source of `[prefixes]`, or `default`.
        reload prefixes: String = "default".to_owned(), any();
    }
}

section! {
    /// The next hop of a rule.
    Stateless {
        /// SIP URI of the next hop. Requests of trusted peers are forwarded without a transaction
        /// ([routing](routing.md#stateless-forwarding)).
        reload stateless: String = "sip:192.0.2.9:5060".to_owned(), required();
    }
}

section! {
    /// The group of a rule that balances.
    Balance {
        /// Name of a `[[group]]` with the algorithm `rendezvous`. All requests of a call go to one gateway, without a transaction
        /// ([routing](routing.md#stateless-forwarding)).
        reload group: String = "cores".to_owned(), required();
    }
}

choice! {
    /// The prefix table: which gateway groups may take a call, by the longest prefix of the called number
    /// ([routing](routing.md#prefixes)). It is read at the start, at each reload, and on `tandem ctl prefixes reload`, which replaces it as
    /// a whole while calls run. If a row is wrong, nothing changes, and the message names all wrong rows.
    Prefixes {
        /// Where the prefixes come from. `"kamailio"` reads a table of its module `mtree` or `pdt`
        /// ([from Kamailio](from-kamailio.md#prefixes-from-mtree-and-pdt)).
        reload source = {
            /// There are none.
            None = "none",
            /// A CSV file.
            File(PrefixFile) = "file",
            /// The database of `database.url`.
            Database(PrefixColumns) = "database",
            /// A table of Kamailio in that database.
            Kamailio(KamailioPrefixes) = "kamailio",
        }
    }
}

section! {
    /// A file of prefixes.
    PrefixFile {
        /// CSV file. Its first line names the columns: `prefix`, `groups` (names separated by semicolons, in the order in which they are
        /// tried) and, for several groups of callers, `table`.
        reload file: FilePath = FilePath("/etc/tandem/prefixes.csv".into()), required();
    }
}

section! {
    /// A table of prefixes.
    PrefixColumns {
        /// Table or view in the database. The server only reads it.
        reload table: TableName = TableName("prefix_route".to_owned()), required();

        /// Column with the prefix.
        reload prefix_column: ColumnName = ColumnName("prefix".to_owned()), any();

        /// Column with the gateway groups: names separated by semicolons, in the order in which they are tried.
        reload groups_column: ColumnName = ColumnName("groups".to_owned()), any();

        /// Column with the group of callers. If omitted, all rows are for all callers.
        reload callers_column: Option<ColumnName> = None, optional(Some(ColumnName("callers".to_owned())));
    }
}

/// The example of `rule.header` in the reference.
fn customer_header() -> HeaderMatch {
    HeaderMatch(HeaderDescription {
        name: "X-Customer".to_owned(),
        value: Some("gold-*".to_owned()),
    })
}
