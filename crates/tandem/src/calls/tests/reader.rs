//! One reader of events over virtual time.
use crate::calls::events::{Filter, Hub, Reader};
use crate::calls::sample::event;
use sip_dialog::Change;
use std::sync::Arc;
use std::time::Duration;
use tandem_http::Lifetime;
use tokio::time::{Instant, sleep, timeout};

fn hub() -> Arc<Hub> {
    Arc::new(Hub::new(0xab, 2, 100_000))
}

fn attach(hub: &Arc<Hub>, last: Option<&str>) -> Reader {
    attach_filtered(hub, Filter::default(), last)
}

fn attach_filtered(hub: &Arc<Hub>, filter: Filter, last: Option<&str>) -> Reader {
    let last = last.map(|id| id.parse().expect("an id"));
    let reader = hub.attach(Lifetime::new(None), filter, last);
    reader.expect("there is room")
}

fn publish(hub: &Hub, numbers: std::ops::Range<u128>) {
    hub.publish(
        numbers
            .map(|number| event(Change::Answered, number))
            .collect(),
    );
}

async fn next(reader: &mut Reader) -> String {
    let bytes = reader.next().await.expect("not the end");
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_its_position_the_events_from_then_on_and_signs_of_life() {
    let hub = hub();
    let mut early = attach(&hub, None);
    publish(&hub, 0..2);
    let mut late = attach(&hub, None);
    assert_eq!(next(&mut early).await, "retry: 2000\nid: ab-0\n\n");
    assert_eq!(next(&mut late).await, "retry: 2000\nid: ab-2\n\n");
    for number in 1..=2 {
        let frame = next(&mut early).await;
        assert!(frame.starts_with(&format!("id: ab-{number}\nevent: answered\ndata: {{")));
    }
    let start = Instant::now();
    assert_eq!(next(&mut late).await, ": heartbeat\nid: ab-2\n\n");
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    assert_eq!(hub.counters.sent.get(), 2);
    assert_eq!(hub.counters.published.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_signs_of_life_while_its_filter_skips_the_events_of_others() {
    let hub = hub();
    let filter = Filter::parse(&[("user".to_owned(), "carol".to_owned())]);
    let mut reader = attach_filtered(&hub, filter.expect("valid"), None);
    next(&mut reader).await;
    let busy = Arc::clone(&hub);
    let publishing = tokio::spawn(async move {
        for number in 0.. {
            publish(&busy, number..number + 1);
            sleep(Duration::from_millis(100)).await;
        }
    });
    let start = Instant::now();
    for heartbeat in 1..=3 {
        let frame = timeout(Duration::from_secs(16), next(&mut reader)).await;
        let frame = frame.expect("a heartbeat is due");
        assert!(frame.starts_with(": heartbeat\nid: ab-"), "{frame}");
        // The events that it skipped need not be searched again.
        assert!(!frame.contains("ab-0"), "{frame}");
        assert_eq!(start.elapsed(), Duration::from_secs(15) * heartbeat);
    }
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reader_resumes_after_its_last_event_and_learns_of_gaps() {
    let hub = hub();
    let _first = attach(&hub, None);
    publish(&hub, 0..20);
    for (last, gap, first) in [
        ("ab-18", None, Some("ab-19")),
        ("ab-20", None, None),
        ("ab-21", Some("unknown_id"), None),
        ("ab-18446744073709551615", Some("unknown_id"), None),
        ("ac-3", Some("restarted"), Some("ab-1")),
    ] {
        let mut reader = attach(&hub, Some(last));
        next(&mut reader).await;
        if let Some(gap) = gap {
            let expected =
                format!("event: gap\ndata: {{\"event\":\"gap\",\"reason\":\"{gap}\"}}\n\n");
            assert_eq!(next(&mut reader).await, expected, "{last}");
        }
        let expected = first.map_or(": heartbeat".to_owned(), |id| format!("id: {id}\nevent"));
        let frame = next(&mut reader).await;
        assert!(frame.starts_with(&expected), "{last}: {frame}");
    }
    publish(&hub, 20..1_000);
    let mut reader = attach(&hub, Some("ab-3"));
    next(&mut reader).await;
    assert!(next(&mut reader).await.contains("too_old"));
    assert_eq!(hub.counters.gaps.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn events_are_forgotten_after_a_minute_without_readers_and_a_gap_says_so() {
    let hub = hub();
    assert!(!hub.is_wanted());
    publish(&hub, 0..1);
    assert_eq!(hub.counters.published.get(), 0);
    drop(attach(&hub, None));
    publish(&hub, 0..3);
    for _ in 0..59 {
        hub.look();
    }
    assert!(hub.is_wanted() && hub.bytes() > 0);
    hub.look();
    assert!(!hub.is_wanted());
    assert_eq!(hub.bytes(), 0);
    let mut reader = attach(&hub, Some("ab-3"));
    assert_eq!(next(&mut reader).await, "retry: 2000\nid: ab-4\n\n");
    assert!(next(&mut reader).await.contains("too_old"));
    assert_eq!(hub.counters.closed.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_the_ring_is_told_and_ends() {
    let hub = hub();
    let mut reader = attach(&hub, None);
    next(&mut reader).await;
    publish(&hub, 0..1_000);
    let end = next(&mut reader).await;
    assert_eq!(
        end,
        "event: end\ndata: {\"event\":\"end\",\"reason\":\"slow\"}\n\n"
    );
    assert_eq!(reader.next().await, None);
    drop(reader);
    assert_eq!((hub.counters.slow.get(), hub.readers()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn readers_are_limited_and_a_place_is_free_after_the_end() {
    let hub = hub();
    let (first, _second) = (attach(&hub, None), attach(&hub, None));
    let refused = hub.attach(Lifetime::new(None), Filter::default(), None);
    let problem = refused.expect_err("full").to_string();
    assert!(problem.starts_with("2 readers"), "{problem}");
    drop(first);
    attach(&hub, None);
    assert_eq!(hub.counters.refused.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_slowly_but_steadily_stays() {
    let hub = hub();
    let mut reader = attach(&hub, None);
    next(&mut reader).await;
    publish(&hub, 0..40);
    for _ in 0..3 {
        for _ in 0..10 {
            hub.look();
        }
        next(&mut reader).await;
    }
    assert_eq!(hub.counters.slow.get(), 0);
    // One that waits for events is not slow, however long it waits.
    while !next(&mut reader).await.contains("heartbeat") {}
    for _ in 0..100 {
        hub.look();
    }
    drop(reader);
    assert_eq!((hub.counters.slow.get(), hub.counters.closed.get()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn readers_end_when_the_server_stops_after_what_they_have_not_read() {
    let hub = hub();
    let mut reader = attach(&hub, None);
    publish(&hub, 0..1);
    let reading = tokio::spawn(async move {
        let mut all = String::new();
        while let Some(frame) = reader.next().await {
            all.push_str(std::str::from_utf8(&frame).expect("text"));
        }
        all
    });
    hub.stop().await;
    let all = reading.await.expect("it ends");
    assert!(
        all.contains("event: answered") && all.ends_with("\"reason\":\"stopping\"}\n\n"),
        "{all}"
    );
    assert_eq!(hub.counters.stopping.get(), 1);
}
