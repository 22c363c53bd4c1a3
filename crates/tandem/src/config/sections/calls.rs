//! The sections about how requests and calls are forwarded.
use crate::config::catalogue::{any, between, optional};
use crate::config::declare::section;
use crate::config::values::dialog_store::DialogStore;
use crate::config::values::duration::{days, hours, millis, seconds};
use crate::config::values::host::NextHop;
use crate::config::values::keyword::StrangerMethod;
use crate::config::values::network::Network;
use sip_elements::{
    DiversionHeaders, Foreign, ProxySettings, Redirects, SessionTimerSettings, Strangers,
};
use sip_transaction::TimerSettings;
use sip_transport::selection::Destination;
use std::time::Duration;

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

        /// Save calls in progress, so that the server still knows them after a restart or a crash.
        restart persist: bool = true, any();

        /// Where calls in progress are saved. The URL of a Redis or Valkey server shares them among the nodes of a fleet, so that another
        /// node can go on with the calls of a node that is gone ([in a fleet](dialogs.md#in-a-fleet)). The log, the admin interface and
        /// `tandem check` do not show the password of the URL.
        restart store: DialogStore = DialogStore::Database, any();

        /// How long a node of the fleet may be silent before the others divide its calls among themselves, with `store = "redis://…"`. A
        /// call that somebody hangs up or refreshes does not wait for this.
        restart orphan_after: Duration = seconds(60), between(seconds(2), seconds(3_600));

        /// How long changes of calls are gathered before they are saved in the database; a Redis server gets them after 20 ms. A call that ends within this time is never written. After a
        /// crash, the server does not know calls that were answered within this time.
        reload save_interval: Duration = seconds(1), between(millis(50), seconds(60));
    }
}

/// The example value of `proxy.outbound` in the reference.
pub(in crate::config) fn example_next_hop() -> NextHop {
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
