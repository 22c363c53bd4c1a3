//! Next hops given by name (RFC 3263), with a real name server: which servers get the calls, and what happens when
//! servers or the name server fail.

use interop::{
    Kamailio, NameServer, Outcome, Records, Scenario, Server, ServerOptions, Sipp, Tunnel, ZONE,
    header,
};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const UDP: &str = "_sip._udp.carrier.test";
const BOB: &str = "sip:bob@carrier.test";
const TCP: &str = "_sip._tcp.carrier.test";
const TLS: &str = "_sips._tcp.carrier.test";
const FAR: &str = "sip:bob@nowhere.carrier.test";

/// A Tandem that uses this name server and sends its subscribers' calls to other domains as their URIs say.
fn server(names: &NameServer, proxy: &str) -> Server {
    let sections = format!("[proxy]\nforeign = \"relay\"\n{proxy}\n{}", names.section());
    Server::start(&ServerOptions::with(&sections))
}

/// Phones that listen before there is a server that calls them.
fn phones<const N: usize>(scenario: &str) -> [Sipp; N] {
    phones_that(&Scenario::new(scenario))
}

fn phones_that<const N: usize>(scenario: &Scenario) -> [Sipp; N] {
    // A phone that is only called does not use its domain and server address.
    let names = NameServer::start(&Records::new(), 0);
    let server = server(&names, "");
    [(); N].map(|()| scenario.clone().calls(1_000_000).start(&server))
}

/// The protocols in the server's Via of the calls that a phone received.
fn came_over(phone: Sipp) -> Vec<String> {
    let messages = phone.stop().messages;
    let invites = messages.received("INVITE").into_iter();
    let vias = invites.map(|invite| header(invite, "Via")[0].to_owned());
    vias.map(|via| via.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

fn port(phone: &Sipp) -> u16 {
    phone.address.port()
}

fn calls(count: u32) -> Scenario {
    Scenario::new("call")
        .to(BOB)
        .calls(count)
        .with(&["-r", "50"])
}

/// How many calls each phone received.
fn had<const N: usize>(phones: [Sipp; N]) -> [usize; N] {
    phones.map(|phone| phone.stop().messages.received("INVITE").len())
}

fn refusal(outcome: &Outcome, status: &str) -> String {
    let refused = outcome.messages.received(status);
    assert_eq!(refused.len(), 1, "{:?}", outcome.messages);
    refused[0].lines().next().unwrap_or_default().to_owned()
}

#[test]
fn servers_of_one_priority_share_the_calls_by_weight_and_the_others_get_none() {
    let phones = phones::<3>("answer");
    let records = Records::new()
        .server(UDP, "a.carrier.test", port(&phones[0]), 1, 30)
        .server(UDP, "b.carrier.test", port(&phones[1]), 1, 10)
        .server(UDP, "c.carrier.test", port(&phones[2]), 2, 100);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(80).run(&server);
    let [a, b, c] = had(phones);
    assert_eq!((a + b, c), (80, 0));
    assert!(
        a > b && b > 0,
        "{a} and {b} of 80 calls, by weights 30 and 10"
    );
    assert_eq!(names.asked("SRV", UDP), 1, "the answer is kept");
}

#[test]
fn more_than_eight_servers_all_get_calls() {
    let phones = phones::<12>("answer");
    let mut records = Records::new();
    for (place, phone) in phones.iter().enumerate() {
        let host = format!("s{place}.carrier.test");
        records = records.server(UDP, &host, port(phone), 1, 1);
    }
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(240).run(&server);
    let had = had(phones);
    assert_eq!(had.iter().sum::<usize>(), 240);
    assert!(had.iter().all(|calls| *calls > 0), "{had:?}");
}

#[test]
fn a_server_that_is_silent_costs_one_call_less_than_5_seconds_and_no_call_its_life() {
    let [alive] = phones::<1>("answer");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let silent_port = silent.local_addr().expect("bound").port();
    let records = Records::new()
        .server(UDP, "dead.carrier.test", silent_port, 1, 1)
        .server(UDP, "alive.carrier.test", port(&alive), 2, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    let begun = Instant::now();
    calls(1).run(&server);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for _ in 0..4 {
        calls(1).run(&server);
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(had([alive]), [5]);
    let dead = server.rpc("targets.dead", &json!({}));
    let found = &dead["targets"][0];
    assert_eq!(
        found["address"],
        format!("127.0.0.1:{silent_port}"),
        "{dead}"
    );
    assert_eq!(server.count("tandem_dead_targets", ""), 1);
    assert_eq!(server.count("tandem_failovers_total", ""), 1);
}

#[test]
fn a_server_whose_port_is_closed_costs_no_time() {
    const CALLS: u32 = 10;
    let [alive] = phones::<1>("answer");
    let nobody = interop::free_port();
    let only = Records::new().server(UDP, "alive.carrier.test", port(&alive), 2, 1);
    let both = only.clone().server(UDP, "dead.carrier.test", nobody, 1, 1);
    let took = |records: &Records, event_loop: &str| {
        let names = NameServer::start(records, 60);
        // Each call must find the dead server anew.
        let proxy = "[proxy]\nforeign = \"relay\"\ndead_target_lifetime = \"0s\"\n";
        let server = Server::start(&ServerOptions {
            event_loop: event_loop.to_owned(),
            ..ServerOptions::with(&format!("{proxy}{}", names.section()))
        });
        let begun = Instant::now();
        for _ in 0..CALLS {
            calls(1).run(&server);
        }
        let count = |name: &str, labels: &str| server.count(name, labels);
        let failovers = count("tandem_failovers_total", "");
        let errors = count("tandem_icmp_errors_total", "port_unreachable");
        (begun.elapsed() / CALLS, failovers, errors)
    };
    let (usual, failovers, errors) = took(&only, "epoll");
    assert_eq!((failovers, errors), (0, 0));
    for event_loop in ["epoll", "poll", "io_uring"] {
        let (took, failovers, errors) = took(&both, event_loop);
        println!("{event_loop}: {took:?} a call, {usual:?} without the dead server");
        let most = usual + Duration::from_millis(100);
        assert!(took < most, "{event_loop}: {took:?}, usually {usual:?}");
        let calls = u64::from(CALLS);
        assert_eq!(failovers, calls, "{event_loop}");
        assert!(errors >= calls, "{event_loop}: {errors}");
    }
}

#[test]
fn a_503_sends_the_call_to_the_next_server() {
    let ([busy], [alive]) = (phones::<1>("unavailable"), phones::<1>("answer"));
    let records = Records::new()
        .server(UDP, "busy.carrier.test", port(&busy), 1, 1)
        .server(UDP, "alive.carrier.test", port(&alive), 2, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(10).run(&server);
    assert_eq!((had([busy]), had([alive])), ([1], [10]));
}

#[test]
fn naptr_records_name_the_service_among_those_that_we_speak() {
    let [wanted, other] = phones::<2>("answer");
    let records = Records::new()
        // SCTP, which Tandem does not support.
        .naptr(10, "SIP+D2S", "_sip._sctp.carrier.test")
        .naptr(20, "SIP+D2U", "_sip._udp.east.carrier.test")
        .server(
            "_sip._udp.east.carrier.test",
            "east.carrier.test",
            port(&wanted),
            1,
            1,
        )
        .server(UDP, "west.carrier.test", port(&other), 1, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(3).run(&server);
    assert_eq!(had([wanted, other]), [3, 0]);
    let asked = ["NAPTR", "SRV"].map(|kind| names.asked(kind, UDP) + names.asked(kind, ZONE));
    assert_eq!(
        asked,
        [1, 0],
        "what the NAPTR records say is not asked for again"
    );
}

#[test]
fn naptr_records_may_prefer_tcp() {
    let [udp] = phones::<1>("answer");
    let [tcp] = phones_that::<1>(&Scenario::new("answer").over_tcp());
    let records = Records::new()
        .naptr(10, "SIP+D2T", TCP)
        .naptr(20, "SIP+D2U", UDP)
        .server(TCP, "tcp.carrier.test", port(&tcp), 1, 1)
        .server(UDP, "udp.carrier.test", port(&udp), 1, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(3).run(&server);
    assert_eq!(came_over(tcp), ["SIP/2.0/TCP"; 3]);
    assert_eq!(had([udp]), [0]);
    let opened = server.count("tandem_connections_begun_total", "by=\"server\"");
    assert_eq!(opened, 1, "all take one connection");
}

#[test]
fn a_transport_in_the_uri_leaves_nothing_to_naptr() {
    let [udp] = phones::<1>("answer");
    let [tcp] = phones_that::<1>(&Scenario::new("answer").over_tcp());
    let records = Records::new()
        .naptr(10, "SIP+D2U", UDP)
        .server(TCP, "tcp.carrier.test", port(&tcp), 1, 1)
        .server(UDP, "udp.carrier.test", port(&udp), 1, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    let bob = format!("{BOB};transport=tcp");
    calls(2).to(&bob).run(&server);
    assert_eq!(came_over(tcp), ["SIP/2.0/TCP"; 2]);
    assert_eq!(had([udp]), [0]);
    assert_eq!(names.asked("NAPTR", ZONE), 0);
}

/// The configuration that makes a Tandem trust the certificate in this folder.
fn believing(folder: &TempDir) -> String {
    let chain = folder.path().join("chain.pem");
    let chain = chain.display();
    format!("outbound = \"sips:carrier.test\"\n[tls]\nserver_ca = \"{chain}\"\n")
}

#[test]
fn a_sips_next_hop_must_prove_its_domain_over_tls() {
    let [phone, robbed] = phones_that::<2>(&Scenario::new("answer").over_tcp());
    let [real, other] = [ZONE, "other.test"].map(|name| {
        let folder = TempDir::new().expect("temporary folder");
        Server::make_certificate(folder.path(), &[name]);
        folder
    });
    let impostor = Tunnel::before(robbed.address, other.path());
    let tunnel = Tunnel::before(phone.address, real.path());
    let records = Records::new()
        .server(TLS, "a.carrier.test", impostor.address().port(), 1, 1)
        .server(TLS, "b.carrier.test", tunnel.address().port(), 2, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, &believing(&real));
    calls(3).to("sip:bob@elsewhere.invalid").run(&server);
    assert_eq!(came_over(phone), ["SIP/2.0/TLS"; 3], "{}", tunnel.log());
    assert_eq!(had([robbed]), [0]);
    let dead = server.rpc("targets.dead", &json!({}));
    let address = impostor.address().to_string();
    assert_eq!(dead["targets"][0]["address"], address, "{dead}");
}

#[test]
fn the_next_hop_of_all_other_domains_may_be_a_name() {
    let [phone] = phones::<1>("answer");
    let records = Records::new().server(UDP, "trunk.carrier.test", port(&phone), 1, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "outbound = \"sip:carrier.test\"");
    let call = Scenario::new("call").to("sip:+15551234@elsewhere.invalid");
    call.run(&server);
    assert_eq!(had([phone]), [1]);
}

#[test]
fn a_name_that_does_not_exist_is_refused_with_its_reason_and_not_asked_for_each_time() {
    let names = NameServer::start(&Records::new(), 60);
    let server = server(&names, "");
    let refused = Scenario::new("call_refused").to(FAR).run(&server);
    let line = refusal(&refused, "SIP/2.0 500");
    assert_eq!(line, "SIP/2.0 500 Next hop has no address");
    assert_eq!(server.count("tandem_lookups_total", "not_found"), 1);
    let again = Scenario::new("call_refused").to(FAR).calls(5);
    again.with(&["-r", "100"]).run(&server);
    assert_eq!(server.count("tandem_lookups_total", "not_found"), 6);
    // sipp starts slowly, so the first answer may already have expired.
    let asked = names.asked("NAPTR", "nowhere.carrier.test");
    assert!(asked <= 2, "asked {asked} times");
}

#[test]
fn a_dead_name_server_causes_a_timely_response_and_delays_no_other_call() {
    let [phone] = phones::<1>("answer");
    let records = Records::new().server(UDP, "a.carrier.test", port(&phone), 1, 1);
    let names = NameServer::start(&records, 60);
    let server = server(&names, "");
    calls(1).run(&server);
    names.stop();
    let begun = Instant::now();
    let refused = Scenario::new("call_refused").to(FAR).run(&server);
    let line = refusal(&refused, "SIP/2.0 504");
    assert_eq!(line, "SIP/2.0 504 Next hop was not resolved in time");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    calls(5).run(&server);
    assert_eq!(had([phone]), [6], "what was known is still known");
}

#[test]
fn records_are_used_for_as_long_as_they_live_and_no_longer() {
    let [old, new] = phones::<2>("answer");
    let records = |phone: &Sipp| Records::new().server(UDP, "a.carrier.test", port(phone), 1, 1);
    let names = NameServer::start(&records(&old), 3);
    let address: SocketAddr = names.address();
    let server = server(&names, "");
    calls(1).run(&server);
    names.stop();
    let names = NameServer::start_at(address, &records(&new), 3);
    calls(1).run(&server);
    std::thread::sleep(Duration::from_millis(3_500));
    calls(1).run(&server);
    assert_eq!(had([old, new]), [2, 1]);
    drop(names);
}

#[test]
fn one_of_two_servers_dies_in_the_middle_of_200_calls_a_second_and_no_call_fails() {
    const CALLS: u32 = 4_000;
    let many = |name: &str, calls| {
        let scenario = Scenario::new(name).calls(calls).untraced();
        scenario.with(&["-buff_size", "4000000", "-l", "10000", "-r", "200"])
    };
    let empty = NameServer::start(&Records::new(), 0);
    // What comes through the other server after its call is over looks like a new call to sipp. It must not end sipp before the last call.
    let phone = many("answer_anyhow", 2 * CALLS).start(&server(&empty, ""));
    let mut doomed = Kamailio::start(ZONE, phone.address);
    let other = Kamailio::start(ZONE, phone.address);
    let records = Records::new()
        .server(UDP, "a.carrier.test", doomed.address().port(), 1, 50)
        .server(UDP, "b.carrier.test", other.address().port(), 1, 50);
    let names = NameServer::start(&records, 5);
    let server = server(&names, "");
    let caller = many("call", CALLS).to(BOB).with(&["-d", "1000"]);
    let caller = caller.start(&server);
    std::thread::sleep(Duration::from_secs(9));
    assert_eq!(server.count("tandem_failovers_total", ""), 0);
    doomed.kill();
    let caller = caller.finish_within(Duration::from_secs(90));
    let phone = phone.stop();
    let failovers = server.count("tandem_failovers_total", "");
    println!("{failovers} requests went on to the other server");
    assert_eq!(caller.count("SuccessfulCall(C)"), u64::from(CALLS));
    assert_eq!(caller.count("FailedCall(C)"), 0);
    assert!(phone.count("SuccessfulCall(C)") >= u64::from(CALLS));
    assert!(failovers > 0, "the dead server had its share of the calls");
    assert_eq!(server.count("tandem_dead_targets", ""), 1);
}
