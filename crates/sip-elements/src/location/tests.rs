//! Tests of the location service: order, expiry, bounds, exact counts under concurrent changes, few writes.

use super::*;
use std::sync::Barrier;

const ALICE: &[u8] = b"alice@example.org";

fn at(seconds: u64) -> Time {
    Time::from_unix_seconds(seconds)
}

fn locations(max_bindings: usize) -> Locations {
    let limits = LocationLimits {
        max_bindings,
        max_pending_changes: 100,
    };
    Locations::with_secret((1, 2), limits)
}

fn binding(contact: &str, expires_at: u32) -> Binding<'_> {
    Binding {
        contact: contact.as_bytes(),
        q: 1000,
        expires_at,
        call_id: b"843817637684230@998sdasdh09",
        cseq: 1,
        path: b"",
        instance: b"",
        user_agent: b"Phone/1.0",
        source: "192.0.2.1:5062".parse().unwrap(),
        listener: ListenerId(0),
        connection: ConnectionId::NONE,
    }
}

/// Creates or refreshes a binding.
struct Put<'b>(Binding<'b>);

impl Change for Put<'_> {
    type Error = ();

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), ()> {
        match contacts.position(|binding| binding.contact == self.0.contact) {
            Some(position) => contacts.replace(position, self.0),
            None => contacts.add(self.0),
        }
        Ok(())
    }

    fn refreshed(&self) -> Option<Binding<'_>> {
        Some(self.0)
    }
}

/// Ends a binding.
struct End<'b>(&'b str);

impl Change for End<'_> {
    type Error = ();

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), ()> {
        if let Some(position) = contacts.position(|binding| binding.contact == self.0.as_bytes()) {
            contacts.remove(position);
        }
        Ok(())
    }
}

/// Changes everything and then refuses.
struct ChangeItsMind;

impl Change for ChangeItsMind {
    type Error = &'static str;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Self::Error> {
        contacts.retain(|_, _| false);
        contacts.add(binding("sip:other@192.0.2.2", 9_000));
        Err("no")
    }
}

fn put(locations: &Locations, address: &[u8], now: u64, binding: Binding<'_>) {
    locations
        .change(address, at(now), &Put(binding), |_| ())
        .unwrap();
}

fn contacts(locations: &Locations, address: &[u8], now: u64) -> Vec<String> {
    let mut contacts = Vec::new();
    let count = locations.visit(address, at(now), |binding| {
        contacts.push(String::from_utf8(binding.contact.to_vec()).unwrap());
    });
    assert_eq!(count, contacts.len());
    contacts
}

/// The number of bindings in the table, including expired ones.
fn held(locations: &Locations) -> u64 {
    let mut held = 0;
    locations.for_each(at(0), |_, _| held += 1);
    held
}

#[test]
fn bindings_are_visited_by_q_and_the_newest_first() {
    let locations = locations(10);
    for (contact, q) in [
        ("sip:a", 500),
        ("sip:b", 1000),
        ("sip:c", 500),
        ("sip:d", 0),
    ] {
        put(
            &locations,
            ALICE,
            100,
            Binding {
                q,
                ..binding(contact, 200)
            },
        );
    }
    assert_eq!(
        contacts(&locations, ALICE, 100),
        ["sip:b", "sip:c", "sip:a", "sip:d"]
    );
    put(
        &locations,
        ALICE,
        101,
        Binding {
            q: 500,
            ..binding("sip:a", 300)
        },
    );
    assert_eq!(
        contacts(&locations, ALICE, 101),
        ["sip:b", "sip:a", "sip:c", "sip:d"]
    );
    assert_eq!(contacts(&locations, b"bob@example.org", 100), [""; 0]);
}

#[test]
fn an_expired_binding_is_invisible_before_it_is_swept() {
    let locations = locations(10);
    put(&locations, ALICE, 100, binding("sip:short", 160));
    put(&locations, ALICE, 100, binding("sip:long", 3_700));
    assert_eq!(contacts(&locations, ALICE, 159), ["sip:long", "sip:short"]);
    assert_eq!(contacts(&locations, ALICE, 160), ["sip:long"]);
    assert_eq!(held(&locations), 2);
    let mut listed = Vec::new();
    locations.for_each(at(160), |address, binding| {
        listed.push((address.to_vec(), binding.contact.to_vec()));
    });
    assert_eq!(listed, [(ALICE.to_vec(), b"sip:long".to_vec())]);
    assert_eq!(locations.sweep(at(160)), 1);
    assert_eq!(held(&locations), 1);
    assert_eq!(locations.sweep(at(3_700)), 1);
    assert_eq!(locations.sweep(at(3_700)), 0);
    let stats = locations.stats();
    assert_eq!(
        (stats.created, stats.ended, stats.live, stats.addresses),
        (2, 2, 0, 0)
    );
}

#[test]
fn each_binding_is_swept_in_its_time() {
    let locations = locations(100);
    let sweep = |now: u64, ended: usize| {
        assert_eq!(locations.sweep(at(now - 1)), 0, "before {now}");
        assert_eq!(locations.sweep(at(now)), ended, "at {now}");
    };
    let ends = [500, 100, 300, 300, 700];
    for (contact, end) in ["sip:a", "sip:b", "sip:c", "sip:d", "sip:e"]
        .iter()
        .zip(ends)
    {
        put(&locations, contact.as_bytes(), 0, binding(contact, end));
    }
    put(&locations, b"sip:a", 0, binding("sip:second", 400));
    sweep(100, 1);
    let extended = Binding {
        cseq: 2,
        ..binding("sip:c", 900)
    };
    put(&locations, b"sip:c", 100, extended);
    let shortened_in_place = Binding {
        cseq: 2,
        ..binding("sip:e", 110)
    };
    put(&locations, b"sip:e", 100, shortened_in_place);
    sweep(110, 1);
    let shortened_and_more = Binding {
        q: 1,
        ..binding("sip:d", 120)
    };
    put(&locations, b"sip:d", 110, shortened_and_more);
    sweep(120, 1);
    locations.restore(b"sip:f", &binding("sip:f", 130));
    sweep(130, 1);
    sweep(400, 1);
    sweep(500, 1);
    sweep(900, 1);
    assert_eq!(held(&locations), 0);
}

#[test]
fn a_change_that_finds_expired_bindings_ends_them() {
    let locations = locations(10);
    put(&locations, ALICE, 100, binding("sip:a", 160));
    put(&locations, ALICE, 200, binding("sip:b", 300));
    assert_eq!(held(&locations), 1);
    assert_eq!(locations.stats().ended, 1);
    // The expired binding made room for its successor.
    put(&locations, ALICE, 400, binding("sip:a", 500));
    let stats = locations.stats();
    assert_eq!((stats.created, stats.ended, stats.live), (3, 2, 1));
}

#[test]
fn a_refused_change_changes_nothing() {
    let locations = locations(10);
    put(&locations, ALICE, 100, binding("sip:a", 160));
    let before = locations.stats();
    let refused = locations.change(ALICE, at(100), &ChangeItsMind, |_| ());
    assert_eq!(refused, Err(NotChanged::Refused("no")));
    assert_eq!(contacts(&locations, ALICE, 100), ["sip:a"]);
    assert_eq!(locations.stats(), before);
}

#[test]
fn the_table_takes_no_more_than_its_maximum() {
    let locations = locations(3);
    for contact in ["sip:a", "sip:b"] {
        put(&locations, ALICE, 100, binding(contact, 200));
    }
    put(&locations, b"bob@example.org", 100, binding("sip:c", 200));
    let full = locations.change(ALICE, at(100), &Put(binding("sip:d", 200)), |_| ());
    assert_eq!(full, Err(NotChanged::Full));
    assert_eq!(locations.stats().refused_full, 1);
    // A refresh is always possible, and a binding that ends makes room.
    put(&locations, ALICE, 110, binding("sip:a", 210));
    locations
        .change(ALICE, at(110), &End("sip:b"), |_| ())
        .unwrap();
    put(&locations, b"carol@example.org", 110, binding("sip:d", 200));
    assert_eq!(held(&locations), 3);
    assert_eq!(locations.remove(b"bob@example.org", Time::default()), 1);
    put(&locations, ALICE, 110, binding("sip:e", 200));
    assert_eq!(held(&locations), 3);
}

#[test]
fn a_binding_that_is_too_long_is_refused() {
    let locations = locations(3);
    let long = "sip:".to_owned() + &"x".repeat(9_000);
    let refused = locations.change(ALICE, at(100), &Put(binding(&long, 200)), |_| ());
    assert_eq!(refused, Err(NotChanged::TooLong));
}

#[test]
fn a_restored_binding_is_there_and_need_not_be_saved() {
    let locations = locations(2);
    locations.restore(ALICE, &binding("sip:a", 200));
    locations.restore(
        ALICE,
        &Binding {
            cseq: 7,
            ..binding("sip:a", 300)
        },
    );
    locations.restore(ALICE, &binding("sip:b", 300));
    locations.restore(ALICE, &binding("sip:c", 300)); // One too many.
    assert_eq!(contacts(&locations, ALICE, 250), ["sip:b", "sip:a"]);
    assert_eq!(locations.pending_changes(), 0);
    let stats = locations.stats();
    assert_eq!((stats.created, stats.live, stats.refused_full), (2, 2, 1));
}

#[test]
fn a_binding_is_taken_over_unless_another_one_with_its_contact_stays() {
    let locations = locations(2);
    let take = |binding: Binding<'_>, replaced: u32| {
        locations.take_over(ALICE, &binding, at(100), |known| known.cseq == replaced)
    };
    let with_cseq = |cseq, expires_at| Binding {
        cseq,
        ..binding("sip:a", expires_at)
    };
    assert_eq!(take(with_cseq(1, 200), 0), Some(200), "it is new");
    assert_eq!(take(with_cseq(2, 300), 1), Some(300), "it replaces");
    assert_eq!(take(with_cseq(3, 400), 1), Some(300), "the other one stays");
    // A refresh in place is another binding.
    put(&locations, ALICE, 100, with_cseq(4, 500));
    assert_eq!(take(with_cseq(3, 400), 2), Some(500));
    let refreshed = locations.take_over(ALICE, &with_cseq(3, 900), at(500), |_| false);
    assert_eq!(refreshed, Some(900), "one that has expired does not stay");
    assert_eq!(take(binding("sip:b", 300), 0), Some(300));
    assert_eq!(take(binding("sip:c", 300), 0), None, "the table is full");
    let stats = locations.stats();
    assert_eq!((stats.created, stats.live, stats.refused_full), (3, 2, 1));
}

#[test]
fn a_pure_refresh_is_saved_only_when_an_eighth_of_the_saved_lifetime_is_gone() {
    let locations = locations(10);
    put(&locations, ALICE, 0, binding("sip:a", 3_600));
    assert_eq!(locations.take_changes().addresses.len(), 1, "a new binding");
    let mut saved = 0;
    // First updated in place, then as one of two.
    for now in (60..=1_800).step_by(60) {
        if now == 900 {
            put(&locations, ALICE, now, binding("sip:b", 9_000));
            saved = now - 60; // This also saves the end of the previous refresh.
            locations.take_changes();
        }
        let refreshed = Binding {
            cseq: now as u32,
            ..binding("sip:a", now as u32 + 3_600)
        };
        put(&locations, ALICE, now, refreshed);
        let due = now - saved > 3_600 / 8;
        assert_eq!(
            locations.take_changes().addresses.len(),
            usize::from(due),
            "refreshed at {now}"
        );
        if due {
            saved = now;
        }
    }
}

#[test]
fn a_shortened_binding_is_saved_at_once() {
    for others in [0, 1] {
        let locations = locations(10);
        put(&locations, ALICE, 0, binding("sip:a", 3_600));
        if others > 0 {
            put(&locations, ALICE, 0, binding("sip:b", 3_600));
        }
        locations.take_changes();
        put(
            &locations,
            ALICE,
            10,
            Binding {
                cseq: 2,
                ..binding("sip:a", 70)
            },
        );
        assert_eq!(locations.take_changes().addresses.len(), 1);
    }
}

#[test]
fn a_change_of_the_contacts_is_saved_at_once() {
    let locations = locations(10);
    let original = binding("sip:a", 3_600);
    put(&locations, ALICE, 0, original);
    let moved = "198.51.100.7:1024".parse().unwrap();
    for (what, changed) in [
        ("q", Binding { q: 1, ..original }),
        (
            "source",
            Binding {
                source: moved,
                ..original
            },
        ),
        (
            "listener",
            Binding {
                listener: ListenerId(1),
                ..original
            },
        ),
        (
            "path",
            Binding {
                path: b"<sip:edge;lr>",
                ..original
            },
        ),
        ("another contact", binding("sip:b", 3_600)),
    ] {
        locations.take_changes();
        put(&locations, ALICE, 0, original);
        locations.take_changes();
        put(&locations, ALICE, 0, changed);
        assert_eq!(
            locations.take_changes().addresses,
            [Box::from(ALICE)],
            "{what}"
        );
    }
    locations
        .change(ALICE, at(1), &End("sip:b"), |_| ())
        .unwrap();
    assert_eq!(
        locations.take_changes().addresses,
        [Box::from(ALICE)],
        "one ended"
    );
    locations
        .change(ALICE, at(1), &End("sip:b"), |_| ())
        .unwrap();
    assert_eq!(locations.pending_changes(), 0, "nothing to end");
    locations
        .change(ALICE, at(1), &End("sip:a"), |_| ())
        .unwrap();
    assert_eq!(
        locations.take_changes().addresses,
        [Box::from(ALICE)],
        "the last one ended"
    );
    put(&locations, ALICE, 0, original);
    locations.take_changes();
    locations.sweep(at(4_000));
    assert_eq!(
        locations.take_changes().addresses,
        [Box::from(ALICE)],
        "expired"
    );
    put(&locations, ALICE, 0, original);
    locations.take_changes();
    locations.remove(ALICE, Time::default());
    assert_eq!(
        locations.take_changes().addresses,
        [Box::from(ALICE)],
        "removed"
    );
}

#[test]
fn the_reader_of_a_change_sees_its_result() {
    let locations = locations(10);
    put(&locations, ALICE, 0, binding("sip:a", 100));
    let seen = locations.change(ALICE, at(50), &Put(binding("sip:b", 200)), |live| {
        live.map(|binding| binding.contact.to_vec())
            .collect::<Vec<_>>()
    });
    assert_eq!(seen, Ok(vec![b"sip:b".to_vec(), b"sip:a".to_vec()]));
    let seen = locations.change(ALICE, at(50), &End("sip:none"), |live| live.count());
    assert_eq!(seen, Ok(2));
}

/// Many threads create and end bindings of few addresses at once. No update is lost, the counts are exact, and the
/// maximum holds.
#[test]
fn counts_are_exact_under_concurrent_changes() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 5_000;
    const MAXIMUM: usize = 7;
    let locations = locations(MAXIMUM);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (locations, start) = (&locations, &start);
            scope.spawn(move || {
                start.wait();
                let own: Vec<String> = (0..3).map(|n| format!("sip:{thread}.{n}")).collect();
                for round in 0..ROUNDS {
                    let address = [b"a@x", b"b@x"][(round % 2) as usize];
                    let contact = &own[(round % 3) as usize];
                    let expires_at = if round % 5 == 0 { round } else { ROUNDS * 2 };
                    let now = at(u64::from(round));
                    let _full =
                        locations.change(address, now, &Put(binding(contact, expires_at)), |_| ());
                    if round % 4 == 1 {
                        locations
                            .change(address, now, &End(contact), |_| ())
                            .unwrap();
                    }
                    if round % 64 == 0 {
                        locations.sweep(now);
                    }
                    let stats = locations.stats();
                    assert_eq!(stats.created, stats.ended + stats.live);
                }
            });
        }
    });
    let stats = locations.stats();
    assert!(stats.live <= MAXIMUM as u64);
    assert_eq!(stats.live, held(&locations));
    assert_eq!(
        stats.live,
        locations.occupied.load(Ordering::Relaxed) as u64
    );
    assert!(stats.refused_full > 0, "the maximum was never reached");
    locations.sweep(at(u64::from(ROUNDS) * 3));
    assert_eq!(locations.stats().live, 0);
    assert_eq!(locations.occupied.load(Ordering::Relaxed), 0);
}

/// Refreshes update the times in place while other threads replace the record. Each refresh that was reported as made
/// stays visible, in the binding itself and in the new record.
#[test]
fn no_refresh_in_place_is_lost_to_a_concurrent_change() {
    const ROUNDS: u32 = 20_000;
    let locations = locations(100);
    put(&locations, ALICE, 0, binding("sip:refreshed", 1_000));
    std::thread::scope(|scope| {
        let locations = &locations;
        let refreshing = scope.spawn(move || {
            for round in 1..=ROUNDS {
                let expected = Binding {
                    cseq: round,
                    ..binding("sip:refreshed", 1_000 + round)
                };
                let seen = locations.change(ALICE, at(0), &Put(expected), |mut live| {
                    live.any(|binding| binding == expected)
                });
                assert_eq!(seen, Ok(true));
                let mut seen = 0;
                locations.visit(ALICE, at(0), |binding| {
                    seen += usize::from(*binding == expected);
                });
                assert_eq!(seen, 1, "refresh {round} is lost");
            }
        });
        // One binding, two, and one again: with and without times beside the record.
        while !refreshing.is_finished() {
            put(locations, ALICE, 0, binding("sip:other", 9_000));
            locations
                .change(ALICE, at(0), &End("sip:other"), |_| ())
                .unwrap();
        }
    });
}

#[test]
fn a_refresh_of_the_only_binding_needs_no_new_record() {
    let locations = locations(10);
    put(&locations, ALICE, 0, binding("sip:a", 100));
    let record = |locations: &Locations| {
        let records = locations.records.pin();
        std::ptr::from_ref(records.get(&locations.hasher.key(ALICE)).unwrap()).addr()
    };
    let first = record(&locations);
    put(
        &locations,
        ALICE,
        10,
        Binding {
            cseq: 2,
            ..binding("sip:a", 200)
        },
    );
    assert_eq!(record(&locations), first);
    assert_eq!(contacts(&locations, ALICE, 150), ["sip:a"]);
    put(
        &locations,
        ALICE,
        200,
        Binding {
            cseq: 3,
            ..binding("sip:a", 300)
        },
    );
    assert_ne!(
        record(&locations),
        first,
        "it had expired: that is a new binding"
    );
    assert_eq!(locations.stats().created, 2);
}

/// Two REGISTERs of one address of record at the same moment: neither is lost.
#[test]
fn no_concurrent_update_is_lost() {
    const THREADS: usize = 4;
    for _ in 0..200 {
        let locations = locations(100);
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (locations, start) = (&locations, &start);
                scope.spawn(move || {
                    start.wait();
                    put(locations, ALICE, 0, binding(&format!("sip:{thread}"), 100));
                });
            }
        });
        let mut found = contacts(&locations, ALICE, 0);
        found.sort();
        assert_eq!(found, ["sip:0", "sip:1", "sip:2", "sip:3"]);
    }
}
