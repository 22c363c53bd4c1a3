//! A dialog that is encoded and restored is the same dialog, and no bytes break the decoder.

use proptest::prelude::*;
use sip_dialog::{Answer, Dialog, Dialogs, Invitation, Leg, MAX_BYTES, Text};
use sip_transaction::Account;
use sip_transport::{Flow, ListenerId, Protocol, Time};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn leg() -> impl Strategy<Value = Leg> {
    let address = (any::<IpAddr>(), any::<u16>());
    (any::<u16>(), address, 0..Protocol::ALL.len(), any::<bool>()).prop_map(
        |(listener, (ip, port), protocol, is_by_flow)| Leg {
            flow: Flow::to(ListenerId(listener), SocketAddr::new(ip, port)),
            protocol: Protocol::ALL[protocol],
            is_by_flow,
        },
    )
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

proptest! {
    #[test]
    fn a_restored_dialog_is_the_same(
        (id, cseq, source, destination) in (any::<u128>(), any::<u32>(), leg(), leg()),
        texts in prop::collection::vec(text(), 9),
        seconds in 1_u64..4_000_000_000,
        lifetime in 1_u64..3_000_000,
    ) {
        let now = Time::from_unix_seconds(seconds);
        let mut dialogs = Dialogs::new(now);
        let [call_id, caller, target, route, from, to, callee, contact, behind] = &texts[..] else {
            unreachable!("nine texts")
        };
        let first = dialogs.begin(&Invitation {
            id,
            account: Account::KNOWN,
            source,
            cseq,
            received: now,
            texts: &[
                (Text::CallId, call_id),
                (Text::CallerTag, caller),
                (Text::CallerTarget, target),
                (Text::CallerRoute, route),
                (Text::From, from),
                (Text::To, to),
            ],
        });
        let answer = Answer {
            key: 7,
            destination,
            status: 202,
            now: now + Duration::from_secs(3),
            lifetime: Duration::from_secs(lifetime),
            patience: Duration::from_secs(32),
            texts: &[(Text::CalleeTag, callee), (Text::CalleeTarget, contact), (Text::CalleeRoute, behind)],
        };
        prop_assert!(dialogs.confirm(first, &answer, true));
        let dialog = dialogs.get(first).expect("live");
        let state = dialog.encode();
        prop_assert_eq!(Dialog::encoded_call_id(&state), Some(&call_id[..]));
        let mut restored = Dialogs::new(now);
        let second = restored.restore(&state, |_| true, |_| 7).expect("a dialog");
        let again = restored.get(second).expect("live");
        prop_assert_eq!(&again.encode(), &state);
        prop_assert_eq!(again.record(None), dialog.record(None));
        prop_assert_eq!(again.expires(), dialog.expires());
        prop_assert_eq!(restored.find(7), Some(second));
        let stats = restored.stats();
        prop_assert_eq!((stats.created, stats.early, stats.confirmed), (1, 0, 1));
        // What a newer version appends is skipped.
        let longer = [&state[..], b"\0\x05later"].concat();
        let mut older = Dialogs::new(now);
        let third = older.restore(&longer, |_| true, |_| 7).expect("a dialog");
        prop_assert_eq!(older.get(third).expect("live").encode(), state);
        prop_assert!(restored.end(second).is_some());
        prop_assert_eq!(restored.stats().bytes, 0);
    }

    #[test]
    fn no_bytes_break_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400), version in 0_u8..4) {
        let mut dialogs = Dialogs::new(Time::from_unix_seconds(1));
        let bytes = [&[version][..], &bytes].concat();
        let call_id = Dialog::encoded_call_id(&bytes);
        if let Some(id) = dialogs.restore(&bytes, |_| true, |_| 1) {
            prop_assert_eq!(call_id, Some(dialogs.get(id).expect("live").text(Text::CallId)));
            prop_assert!(dialogs.get(id).expect("live").bytes() <= MAX_BYTES);
        }
    }
}
