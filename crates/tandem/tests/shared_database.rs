//! Servers that share one PostgreSQL database: each has a name, keeps its own rows, and leaves those of the others alone.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
mod process;
#[path = "../../tandem-store/tests/servers/postgres.rs"]
#[expect(dead_code, reason = "no test here stops the database")]
mod server;

use common::calls::Call;
use common::{Phone, Place, call, get, http_get, metric, none, run, until};
use process::free_port;
use server::Server as Postgres;
use std::time::Duration;
use tandem::serve::Server;
use tandem_store::{DialogRow, NodeName, Store, StoreError, StoreOptions};

/// Live calls.
const CALLS: &str = "tandem_dialogs{state=\"confirmed\"}";
/// Written records.
const WRITTEN: &str = "tandem_call_records_written_total{to=\"database\"}";

/// A place for a server of this name, which keeps its port when it restarts. It saves at once, and responses to REGISTER do not wait for
/// the database.
fn place(url: &str, name: &str, admin: u16) -> Place {
    let place = Place::new("");
    let sip = free_port();
    place.configure_exactly(&format!(
        "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:{sip}\"\n[workers]\ncount = 2\n\
         [node]\nname = \"{name}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[database]\nurl = \"{url}\"\n\
         [auth]\nchallenge = []\n[location]\nmax_lag = \"60s\"\n[records]\ndatabase = true\n\
         [dialogs]\nsave_interval = \"100ms\"\n"
    ));
    place
}

/// The same as [`Place::start`], but with this patience for the name.
async fn start_within(patience: Duration, place: &Place) -> anyhow::Result<Server> {
    let configuration = tandem::config::load(Some(&place.file())).expect("right");
    Server::start_within(patience, Some(place.file()), configuration, None).await
}

/// Waits until a server has saved everything.
async fn saved(server: &Server) {
    until("everything is saved", async || {
        metric(server, "tandem_location_unsaved").await == 0
            && metric(server, "tandem_dialogs_unsaved").await == 0
            && metric(server, "tandem_call_records_waiting{to=\"database\"}").await == 0
    })
    .await;
}

/// Makes one call that lasts, and one that ends.
async fn use_server(server: &Server, names: [&'static str; 2]) -> Call {
    let (caller, callee) = names.map(|name| Phone::new(server, name)).into();
    let call = Call::new(caller, callee, &format!("short-{}", names[0]));
    let (caller, callee) = call.hang_up();
    let call = Call::new(caller, callee, &format!("long-{}", names[0]));
    // This phone registers at both servers.
    assert_eq!(Phone::new(server, "erin").register(names[0], 1).0, 200);
    until("the call is saved and the other one recorded", async || {
        metric(server, "tandem_dialogs_saves_total").await > 0 && metric(server, WRITTEN).await == 1
    })
    .await;
    saved(server).await;
    call
}

/// The number of records of both servers.
async fn records(server: &Server) -> u64 {
    let store = &server.running().store;
    store.records().count().await.expect("counts")
}

#[test]
fn two_servers_keep_their_own_registrations_calls_and_records_in_one_database() {
    run(async {
        let database = Postgres::new();
        let url = database.url("postgres", "postgres");
        let [one, two] = ["one", "two"].map(|name| place(&url, name, 0));
        let (first, second) = (one.start().await, two.start().await);
        let status = call(&second, "node.status", none())
            .await
            .expect("a status");
        assert_eq!(status["node"], "two");
        let call_of_first = use_server(&first, ["alice", "bob"]).await;
        let call_of_second = use_server(&second, ["carol", "dave"]).await;

        assert!(first.stop(false).await);
        let first = one.start().await;
        saved(&first).await;
        assert!(second.stop(false).await);
        let second = two.start().await;
        saved(&second).await;
        // Those of bob, of dave, and of erin at each server.
        for server in [&first, &second] {
            assert_eq!(server.running().restored, 4);
            assert_eq!(metric(server, CALLS).await, 1);
            assert_eq!(records(server).await, 2);
        }

        call_of_first.hang_up();
        call_of_second.hang_up();
        for server in [first, second] {
            until("the call is recorded", async || {
                metric(&server, WRITTEN).await == 1
            })
            .await;
            saved(&server).await;
            assert!(server.stop(false).await);
        }
        for place in [&one, &two] {
            let server = place.start().await;
            assert_eq!(server.running().restored, 4);
            assert_eq!(metric(&server, CALLS).await, 0);
            assert_eq!(records(&server).await, 4);
        }
    });
}

#[test]
fn a_second_server_of_the_same_name_reports_who_has_it_and_takes_over_when_that_one_ends() {
    run(async {
        let database = Postgres::new();
        let url = database.url("postgres", "postgres");
        let first = place(&url, "one", 0).start().await;
        let holder = format!("tandem node one, process {} (session ", std::process::id());

        let refused = start_within(Duration::ZERO, &place(&url, "one", 0)).await;
        let problem = refused.expect_err("the name is reserved").to_string();
        assert!(problem.contains(&holder), "{problem}");
        assert!(problem.contains("node.name"), "{problem}");

        let admin = free_port();
        let second = place(&url, "one", admin);
        let starting = tokio::spawn(async move { (second.start().await, second) });
        until("the reason is to be seen", async || {
            if tokio::net::TcpStream::connect(("127.0.0.1", admin))
                .await
                .is_err()
            {
                return false;
            }
            let (status, body) = http_get(format!("http://127.0.0.1:{admin}/health/ready")).await;
            assert_eq!(status, 503, "{body}");
            body.contains(&holder)
        })
        .await;
        assert!(first.stop(false).await);
        let (second, _place) = starting.await.expect("it starts");
        assert_eq!(get(&second, "/health/ready").await.0, 200);
    });
}

/// Takes the name of a running server: ends the session that reserves it.
async fn take_name(database: &Postgres, url: &str, name: &str) -> Store {
    let node: NodeName = name.parse().expect("a name");
    loop {
        database.execute(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tandem node {name}, %'"
            ),
        );
        match Store::open_as(url, node.clone(), StoreOptions::default()).await {
            Ok(store) => return store,
            // The server has reserved it again already.
            Err(StoreError::InUse { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_server_that_lost_its_name_serves_calls_and_saves_nothing_until_it_has_it_again() {
    run(async {
        let database = Postgres::new();
        let url = database.url("postgres", "postgres");
        let server = place(&url, "one", 0).start().await;
        let winner = take_name(&database, &url, "one").await;
        let row = DialogRow {
            id: 1,
            expires_at: u32::MAX,
            state: Some(b"of the winner".as_slice().into()),
        };
        winner.dialogs().save(&[row]).await.expect("saves");

        until("it is not ready", async || {
            let (status, body) = get(&server, "/health/ready").await;
            status == 503 && body.contains("has reserved the node name")
        })
        .await;
        assert_eq!(metric(&server, "tandem_node_name_taken").await, 1);
        assert_eq!(metric(&server, "tandem_ready").await, 0);
        let (alice, bob) = (Phone::new(&server, "alice"), Phone::new(&server, "bob"));
        let call = Call::new(alice, bob, "long");
        let (carol, dave) = (Phone::new(&server, "carol"), Phone::new(&server, "dave"));
        Call::new(carol, dave, "short").hang_up();
        until("nothing can be saved", async || {
            metric(&server, "tandem_location_save_failures_total").await > 0
                && metric(&server, "tandem_dialogs_save_failures_total").await > 0
                && metric(&server, "tandem_call_records_failing{to=\"database\"}").await == 1
        })
        .await;
        assert_eq!(winner.locations().count().await.expect("counts"), 0);
        assert_eq!(winner.records().count().await.expect("counts"), 0);
        let mut states = Vec::new();
        let dialogs = winner.dialogs();
        let loaded = dialogs.load_all(0, |_, state| states.push(state.to_vec()));
        assert_eq!(loaded.await.expect("loads"), 1);
        assert_eq!(states, [b"of the winner"]);

        winner.close().await;
        until("it is ready again", async || {
            get(&server, "/health/ready").await.0 == 200
        })
        .await;
        saved(&server).await;
        assert_eq!(records(&server).await, 1);
        call.hang_up();
        assert!(server.stop(false).await);
    });
}
