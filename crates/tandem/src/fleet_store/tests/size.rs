//! Measurements, not run by default: `cargo test -p tandem --lib fleet_store::tests::size -- --ignored --nocapture`.
use super::nodes::{Kind, Node};
use super::store::Store;
use std::time::{Duration, Instant};

fn resident() -> u64 {
    let process = procfs::process::Process::myself().expect("a process");
    (process.statm().expect("memory").resident * 4_096) >> 20
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement of a minute"]
async fn a_million_bindings() {
    const BINDINGS: u32 = 1_000_000;
    let store = Store::start().await;
    let kind = Kind {
        most_bindings: 2_000_000,
        queue_bytes: 64 << 20,
        sweep: Duration::from_millis(500),
        ..Kind::default()
    };
    let before = resident();
    let a = Node::start("a", kind, &store).await;
    let began = Instant::now();
    for number in 0..BINDINGS {
        a.register(&format!("user{number}"), 1);
        while a.counters().waiting().1 > 32 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    a.until("all are saved", |a| a.fleet.outbox.is_empty())
        .await;
    let filled = resident();
    println!("written in {:?}; {} MiB", began.elapsed(), filled - before);
    let b = Node::alone("b", kind);
    let mut link = b.new_link(&store);
    let began = Instant::now();
    assert_eq!(link.load().await.expect("loads"), u64::from(BINDINGS));
    println!(
        "loaded in {:?}; {} MiB",
        began.elapsed(),
        resident() - filled
    );
    let memory = store.command(&["INFO", "memory"]).await;
    if let redis::Value::BulkString(text) = memory {
        let text = String::from_utf8_lossy(&text).into_owned();
        let used = text
            .lines()
            .find(|line| line.starts_with("used_memory_human"));
        println!("redis {}", used.unwrap_or_default());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement of ten seconds"]
async fn the_lag_at_two_thousand_registrations_a_second() {
    let kind = Kind {
        sweep: Duration::from_millis(500),
        ..Kind::default()
    };
    let store = Store::start().await;
    let a = Node::start("a", kind, &store).await;
    let b = Node::start("b", kind, &store).await;
    let mut lags = Vec::new();
    let began = Instant::now();
    for second in 1..=10_u32 {
        for hundredth in 0..100_u32 {
            let due = Duration::from_millis(u64::from((second - 1) * 1_000 + hundredth * 10));
            tokio::time::sleep_until((began + due).into()).await;
            for number in 0..20 {
                let user = hundredth * 20 + number;
                a.register(&format!("user{user}"), second);
            }
            let last = format!("user{}", hundredth * 20 + 19);
            if hundredth % 10 == 0 {
                let sent = Instant::now();
                b.until_found(&last, &[second]).await;
                lags.push(sent.elapsed());
            }
        }
    }
    lags.sort_unstable();
    println!("{} samples, longest {:?}", lags.len(), lags.last());
    println!("round trips {:?}", a.counters().round_trip.buckets());
    assert!(*lags.last().expect("samples") < Duration::from_millis(100));
}
