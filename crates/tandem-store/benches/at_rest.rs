//! Measures how fast subscribers and locations are written to the database and read back: `cargo bench -p tandem-store [-- ROWS] [URL]`
//! (default: a million rows, in a new `SQLite` file). The database of a URL must be empty.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tandem_store::{AddressBindings, BindingRow, Existing, Store, StoredCredentials, Subscriber};

/// Subscribers that `tandem user import` writes per batch.
const IMPORT_BATCH: u32 = 5_000;
const SAVE_BATCH: u32 = 1_000;

fn main() {
    let rows = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(url) = std::env::args().find(|argument| argument.contains("://")) {
        return runtime.block_on(measure(&url, rows));
    }
    let url = format!("sqlite:{}", directory.path().join("tandem.db").display());
    runtime.block_on(measure(&url, rows));
    let size = std::fs::metadata(directory.path().join("tandem.db"))
        .expect("the file")
        .len();
    println!("{:<44} {:>12} MiB", "file", size >> 20);
}

async fn measure(url: &str, rows: u32) {
    let store = Store::open(url).await.expect("opens");
    import(&store, rows).await;
    read_subscribers(&store, rows).await;
    full_save(&store, rows).await;
    load(&store, rows).await;
    save_changed(&store, rows).await;
    store.close().await;
}

async fn import(store: &Store, rows: u32) {
    for (existing, what) in [
        (Existing::Keep, "import, new"),
        (Existing::Replace, "import, replaced"),
    ] {
        let mut longest = Duration::ZERO;
        let mut spent = Duration::ZERO;
        for start in (0..rows).step_by(IMPORT_BATCH as usize) {
            let batch: Vec<_> = (start..rows.min(start + IMPORT_BATCH))
                .map(subscriber)
                .collect();
            let begun = Instant::now();
            store
                .subscribers()
                .import(&batch, existing)
                .await
                .expect("imports");
            spent += begun.elapsed();
            longest = longest.max(begun.elapsed());
        }
        report(what, rows, spent);
        println!(
            "{:<44} {longest:>12.1?}",
            format!("  longest transaction of {IMPORT_BATCH}")
        );
    }
}

async fn read_subscribers(store: &Store, rows: u32) {
    let begun = Instant::now();
    let shown = store
        .subscribers()
        .for_each(|username, domain, credentials| {
            black_box((username, domain, credentials));
        })
        .await
        .expect("reads");
    assert_eq!(shown, u64::from(rows));
    report("subscribers read", rows, begun.elapsed());

    let finds = rows.min(20_000);
    let begun = Instant::now();
    for number in 0..finds {
        let found = store
            .subscribers()
            .find(&username(scattered(number, rows)), "example.org")
            .await
            .expect("finds");
        assert!(found.is_some());
    }
    report("find, one after the other", finds, begun.elapsed());

    let begun = Instant::now();
    for _ in 0..1000 {
        black_box(store.subscribers().version().await.expect("reads"));
    }
    report("version polled", 1000, begun.elapsed());
}

async fn full_save(store: &Store, rows: u32) {
    let begun = Instant::now();
    let mut save = store.locations().begin_full_save().await.expect("begins");
    for start in (0..rows).step_by(SAVE_BATCH as usize) {
        let batch: Vec<_> = (start..rows.min(start + SAVE_BATCH))
            .map(|number| bound(number, 1))
            .collect();
        save.add(&batch).await.expect("saves");
    }
    save.finish().await.expect("finishes");
    report("bindings, full save", rows, begun.elapsed());
}

async fn load(store: &Store, rows: u32) {
    let begun = Instant::now();
    let loaded = store
        .locations()
        .load_all(0, |address, binding| {
            black_box((address, binding));
        })
        .await
        .expect("loads");
    assert_eq!(loaded.bindings, u64::from(rows));
    report("bindings loaded", rows, begun.elapsed());
}

/// Saves batches in random order, and batches cut from a list sorted by address, as the server does with pending changes.
async fn save_changed(store: &Store, rows: u32) {
    const BATCHES: u32 = 50;
    for (in_order, what) in [(false, "as they come"), (true, "in order")] {
        // Each round uses other addresses: those of the last round are in the page cache.
        let first = u32::from(in_order) * BATCHES * SAVE_BATCH;
        let mut changed: Vec<u32> = (first..first + BATCHES * SAVE_BATCH)
            .map(|number| scattered(number, rows))
            .collect();
        if in_order {
            changed.sort_unstable();
        }
        let mut times = Vec::new();
        for batch in changed.chunks(SAVE_BATCH as usize) {
            let batch: Vec<_> = batch.iter().map(|number| bound(*number, 2)).collect();
            let begun = Instant::now();
            store.locations().save(&batch).await.expect("saves");
            times.push(begun.elapsed());
        }
        times.sort();
        println!(
            "{:<44} {:>12.1?} median, {:.1?} longest",
            format!("save of {SAVE_BATCH} changed addresses, {what}"),
            times.get(times.len() / 2).copied().unwrap_or_default(),
            times.last().copied().unwrap_or_default()
        );
    }
}

fn report(what: &str, rows: u32, spent: Duration) {
    let rate = f64::from(rows) / spent.as_secs_f64();
    println!("{what:<44} {rate:>12.0} /s   ({rows} in {spent:.2?})");
}

/// Spreads consecutive numbers over all rows.
fn scattered(number: u32, rows: u32) -> u32 {
    (u64::from(number) * 2_654_435_761 % u64::from(rows)) as u32
}

fn username(number: u32) -> String {
    format!("user{number:07}")
}

fn subscriber(number: u32) -> Subscriber {
    Subscriber {
        username: username(number),
        domain: "example.org".into(),
        credentials: StoredCredentials {
            ha1_md5: [number as u8; 16],
            ha1_sha256: [number as u8; 32],
        },
    }
}

fn bound(number: u32, cseq: u32) -> AddressBindings<'static> {
    AddressBindings {
        address: format!("user{number:07}@example.org").into_bytes().into(),
        bindings: vec![BindingRow {
            contact: format!(
                "sip:user{number:07}@192.0.2.{}:5060;transport=udp",
                number % 250
            )
            .into_bytes()
            .into(),
            q: 1000,
            expires_at: 2_000_000_000,
            call_id: format!("{number:08x}4b2c4d5e6f708192@192.0.2.7")
                .into_bytes()
                .into(),
            cseq,
            path: b"".into(),
            instance: format!("<urn:uuid:00000000-0000-1000-8000-{number:012}>")
                .into_bytes()
                .into(),
            user_agent: b"Phone 3.2 (0c383e010203)".into(),
            source: format!("192.0.2.{}:5060", number % 250)
                .parse()
                .expect("an address"),
            listener: "udp:0.0.0.0:5060".into(),
        }],
    }
}
