//! Gateways and prefixes, from `dispatcher`, `mtree`, `mtrees` and `pdt`.

use super::open;
use crate::Database;
use sip_routing::gateway::{Algorithm, Descriptions, Gateways};
use sip_routing::prefix::{Builder, PrefixTable};
use std::fmt::Display;
use tandem_store::{
    DispatcherAlgorithm, DispatcherOptions, DispatcherSource, DispatcherTranslation,
    KamailioPrefixOptions, PrefixSource, PrefixTranslation, PrefixValues, Store, StoreError,
    TranslatedDispatcher,
};

/// As operators have them: two sets with a gateway in both, attributes, a disabled one, and one that is no URI.
const DESTINATIONS: &str = "INSERT INTO dispatcher (setid, destination, flags, priority, attrs) VALUES \
    (1, 'sip:192.0.2.1:5080', 0, 5, 'duid=berlin;maxload=20'), \
    (1, 'sip:trunk.example.net;transport=tls', 8, 10, ''), \
    (1, 'sip:192.0.2.3', 4, 0, ''), \
    (2, 'sip:192.0.2.1:5080', 0, 0, 'socket=udp:192.0.2.100:5060;pipe=p10'), \
    (2, 'tel:+4930', 0, 0, '')";

fn source() -> DispatcherSource {
    DispatcherSource::new("dispatcher".parse().expect("a name"))
}

async fn translated(store: &Store, options: &DispatcherOptions) -> TranslatedDispatcher {
    let mut translation = DispatcherTranslation::new(options);
    let source = source();
    let read = store.read_dispatcher(&source, |row| translation.add(row));
    read.await.expect("reads");
    translation.finish()
}

fn lines(findings: &[impl Display]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn members(descriptions: &Descriptions, group: &str) -> Vec<String> {
    let group = descriptions.groups.iter().find(|it| &*it.name == group);
    let members = group.expect("is there").members.iter();
    members.map(|it| it.gateway.to_string()).collect()
}

#[tokio::test]
async fn sets_become_groups_and_each_destination_becomes_one_gateway() {
    let database = Database::of_kamailio();
    database.execute(DESTINATIONS);
    let options = DispatcherOptions {
        algorithms: [(1, DispatcherAlgorithm::CallLoad)].into(),
        ..DispatcherOptions::default()
    };
    let TranslatedDispatcher {
        descriptions,
        findings,
    } = translated(&open(&database).await, &options).await;
    let names: Vec<&str> = descriptions.gateways.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["berlin", "tls:trunk.example.net"]);
    assert_eq!(members(&descriptions, "dispatcher-1"), names);
    assert_eq!(members(&descriptions, "dispatcher-2"), ["berlin"]);
    assert_eq!(descriptions.gateways[0].max_calls, Some(20));
    assert_eq!(descriptions.groups[0].algorithm, Algorithm::LeastCalls);
    let lines = lines(&findings);
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for (line, words) in lines.iter().zip([
        ["row 3 (set 1, sip:192.0.2.3)", "flag 4"],
        ["row 4 (set 2, sip:192.0.2.1:5080)", "pipe"],
        ["row 4 (set 2, sip:192.0.2.1:5080)", "socket"],
        ["row 5 (set 2, tel:+4930)", "no SIP URI"],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    Gateways::new(descriptions, None).expect("are accepted");
}

#[tokio::test]
async fn absent_values_of_a_view_are_those_of_kamailio() {
    let database = Database::of_kamailio();
    database.execute(
        "CREATE VIEW carriers AS SELECT setid, destination, CASE id WHEN 0 THEN flags END AS flags, \
         CASE id WHEN 0 THEN priority END AS priority, CASE id WHEN 0 THEN attrs END AS attrs FROM dispatcher \
         UNION ALL SELECT NULL, 'sip:192.0.2.9', 0, 0, '' UNION ALL SELECT 3, NULL, 0, 0, ''",
    );
    database.allow_reading("carriers");
    database.execute(DESTINATIONS);
    let store = open(&database).await;
    let mut rows = Vec::new();
    let source = DispatcherSource {
        table: "carriers".parse().expect("a name"),
        ..source()
    };
    let read = store.read_dispatcher(&source, |row| {
        rows.push((row.set, row.flags, row.priority, row.attributes.to_owned()));
    });
    assert_eq!(read.await.expect("reads"), 7);
    rows.sort();
    let of = |set| (set, 0, 0, String::new());
    assert_eq!(rows, [-1, 1, 1, 1, 2, 2, 3].map(of));
}

#[tokio::test]
async fn columns_may_be_absent_or_have_other_names() {
    let database = Database::of_kamailio();
    database.execute("CREATE TABLE old (grp INTEGER, uri VARCHAR(99))");
    database.execute("INSERT INTO old VALUES (7, 'sip:192.0.2.7')");
    database.allow_reading("old");
    let column = |name: &str| name.parse().expect("a name");
    let source = DispatcherSource {
        table: "old".parse().expect("a name"),
        set: column("grp"),
        destination: column("uri"),
        flags: None,
        priority: None,
        attributes: None,
    };
    let mut seen = String::new();
    let store = open(&database).await;
    let read = store.read_dispatcher(&source, |row| seen = format!("{row:?}"));
    assert_eq!(read.await.expect("reads"), 1);
    assert!(
        seen.contains("set: 7") && seen.contains("sip:192.0.2.7"),
        "{seen}"
    );
}

async fn refused(store: &Store, source: &DispatcherSource) -> String {
    let error = store.read_dispatcher(source, |_| {}).await;
    let error = error.expect_err("cannot be read");
    assert!(matches!(error, StoreError::Table { .. }), "{error:?}");
    store.subscribers().count(None).await.expect("still works");
    error.to_string()
}

#[tokio::test]
async fn a_table_of_destinations_that_cannot_be_read_is_named_with_the_reason() {
    let database = Database::of_kamailio();
    let store = open(&database).await;
    assert_eq!(
        store
            .read_dispatcher(&source(), |_| {})
            .await
            .expect("empty"),
        0
    );
    database.execute("CREATE TABLE carriers (setid VARCHAR(40), destination VARCHAR(2000))");
    let source = DispatcherSource {
        table: "carriers".parse().expect("a name"),
        flags: None,
        priority: None,
        attributes: None,
        ..source()
    };
    let message = refused(&store, &source).await;
    assert!(
        message.contains("table carriers") && message.contains("SELECT"),
        "{message}"
    );
    database.allow_reading("carriers");
    for (set, length, what) in [
        (
            "one",
            9,
            "row 1 has \"one\" in setid, which is no whole number",
        ),
        (
            "1",
            1_025,
            "row 1 has more than 1024 characters in destination",
        ),
        (
            "111111111111111111111111111111111",
            9,
            "more than 32 characters in setid",
        ),
    ] {
        let destination = "x".repeat(length);
        database.execute(&format!(
            "INSERT INTO carriers VALUES ('{set}', '{destination}')"
        ));
        let message = refused(&store, &source).await;
        assert!(message.contains(what), "{message}");
        database.execute("DELETE FROM carriers");
    }
    database.execute("DROP TABLE carriers");
    let message = refused(&store, &source).await;
    assert!(message.contains("configured names"), "{message}");
}

/// The table of prefixes, and what was left out.
async fn prefixes(
    store: &Store,
    source: &PrefixSource,
    values: PrefixValues,
    descriptions: Descriptions,
) -> (PrefixTable, Vec<String>) {
    let options = KamailioPrefixOptions {
        values,
        ..KamailioPrefixOptions::default()
    };
    let mut translation = PrefixTranslation::new(&options, descriptions);
    let read = store.read_prefixes(source, |row| translation.add(row));
    read.await.expect("reads");
    let translated = translation.finish();
    let groups = translated.descriptions.groups.iter().map(|it| &*it.name);
    let mut builder = Builder::new(groups);
    translated.fill(&mut builder);
    let table = builder.build().expect("has no bad rows");
    Gateways::new(translated.descriptions, None).expect("are accepted");
    (table, lines(&translated.findings))
}

fn groups(table: &PrefixTable, callers: &str, number: &str) -> Option<String> {
    let found = table.lookup(callers, number.as_bytes())?;
    Some(found.routes.groups().collect::<Vec<_>>().join(";"))
}

#[tokio::test]
async fn trees_lead_to_the_sets_that_their_values_name() {
    let database = Database::of_kamailio();
    database.execute(DESTINATIONS);
    database.execute("INSERT INTO mtree (tprefix, tvalue) VALUES ('49', '1'), ('4930', '2,1'), ('', '1'), ('1', 'x'), ('2', '1:50')");
    database.execute("INSERT INTO mtrees (tname, tprefix, tvalue) VALUES ('retail', '49', '2'), ('whole.sale', '49', '1')");
    let store = open(&database).await;
    let descriptions = translated(&store, &DispatcherOptions::default())
        .await
        .descriptions;
    let source = PrefixSource::mtree("mtree".parse().expect("a name"));
    let (table, left_out) =
        prefixes(&store, &source, PrefixValues::Sets, descriptions.clone()).await;
    for (number, expected) in [
        ("4989", Some("dispatcher-1")),
        ("493012", Some("dispatcher-2;dispatcher-1")),
        ("1", None),
    ] {
        assert_eq!(
            groups(&table, "any", number).as_deref(),
            expected,
            "{number}"
        );
    }
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    assert!(left_out[2].contains("mt_tree_type 1"), "{left_out:?}");
    let source = PrefixSource::mtrees("mtrees".parse().expect("a name"));
    let (table, left_out) = prefixes(&store, &source, PrefixValues::Sets, descriptions).await;
    assert_eq!(
        groups(&table, "retail", "49").as_deref(),
        Some("dispatcher-2")
    );
    assert_eq!(
        groups(&table, "whole_sale", "49").as_deref(),
        Some("dispatcher-1")
    );
    assert_eq!(groups(&table, "other", "49"), None);
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[tokio::test]
async fn domains_of_pdt_become_gateways() {
    let database = Database::of_kamailio();
    database.execute(
        "INSERT INTO pdt (sdomain, prefix, domain) VALUES ('*', '49', 'alpha.org'), ('*', '1', '192.0.2.1:5080'), \
         ('siphub.org', '49', 'beta.org:5070'), ('siphub.org', '1', 'alpha.org'), ('*', '2', '')",
    );
    database.execute(DESTINATIONS);
    let store = open(&database).await;
    let descriptions = translated(&store, &DispatcherOptions::default())
        .await
        .descriptions;
    let source = PrefixSource::pdt("pdt".parse().expect("a name"));
    let (table, left_out) =
        prefixes(&store, &source, PrefixValues::Destinations, descriptions).await;
    assert_eq!(groups(&table, "", "4930").as_deref(), Some("alpha.org"));
    assert_eq!(
        groups(&table, "siphub_org", "4930").as_deref(),
        Some("beta.org:5070")
    );
    assert_eq!(
        groups(&table, "siphub_org", "1").as_deref(),
        Some("alpha.org")
    );
    // The gateway `berlin` of the dispatcher, in a group of its own.
    assert_eq!(groups(&table, "", "1").as_deref(), Some("192.0.2.1:5080"));
    assert_eq!(left_out.len(), 1, "{left_out:?}");
}

#[tokio::test]
async fn reading_routes_writes_nothing_and_needs_only_select() {
    let database = Database::of_kamailio();
    database.execute(DESTINATIONS);
    database.execute("INSERT INTO mtree (tprefix, tvalue) VALUES ('49', '1')");
    let before = database.contents().await;
    let store = open(&database).await;
    translated(&store, &DispatcherOptions::default()).await;
    let source = PrefixSource::mtree("mtree".parse().expect("a name"));
    store.read_prefixes(&source, |_| {}).await.expect("reads");
    assert_eq!(database.contents().await, before);
    assert!(before.contains("dispatcher"), "{before}");
}
