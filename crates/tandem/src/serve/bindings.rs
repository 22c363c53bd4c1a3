//! Converts bindings between memory and database: restores them at startup, and takes snapshots for saving.
use sip_elements::location::{Binding, Locations};
use sip_transport::{ConnectionId, Listener, ListenerId, Time};
use std::borrow::Cow;
use std::time::Duration;
use tandem_store::{AddressBindings, BindingRow, Loaded, Store, StoreError};

/// Names of the listeners, such as `udp:192.0.2.1:5060`. Bindings are stored with names, because the order of listeners can change between
/// starts.
#[derive(Clone, Debug)]
pub struct ListenerNames {
    listeners: Vec<Listener>,
    names: Vec<String>,
}

impl ListenerNames {
    /// Names these listeners, in the order of their ids.
    pub fn new(listeners: &[Listener]) -> Self {
        let names = listeners
            .iter()
            .map(|listener| {
                format!(
                    "{}:{}",
                    listener.protocol.via_token().to_ascii_lowercase(),
                    listener.address
                )
            })
            .collect();
        Self {
            listeners: listeners.to_vec(),
            names,
        }
    }

    /// The name of a listener; empty if the id is unknown.
    pub fn name(&self, id: ListenerId) -> &str {
        self.names.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// The listener of that name. If it does not exist: one of the same transport that reaches the phone's network, or at least has its
    /// address family; else one of another transport.
    pub fn find(&self, binding: &BindingRow<'_>) -> ListenerId {
        let source = binding.source.ip();
        let protocol = binding.listener.split(':').next().unwrap_or_default();
        let speaks =
            |listener: &Listener| listener.protocol.via_token().eq_ignore_ascii_case(protocol);
        let reaches = |listener: &Listener| listener.reaches_directly(source);
        let is_of_family = |listener: &Listener| listener.address.is_ipv4() == source.is_ipv4();
        let position = |fits: &dyn Fn(&Listener) -> bool| self.listeners.iter().position(fits);
        let place = self
            .names
            .iter()
            .position(|name| *name == binding.listener)
            .or_else(|| position(&|it| speaks(it) && reaches(it)))
            .or_else(|| position(&|it| speaks(it) && is_of_family(it)))
            .or_else(|| position(&reaches))
            .or_else(|| position(&is_of_family));
        ListenerId(
            place
                .and_then(|place| u16::try_from(place).ok())
                .unwrap_or_default(),
        )
    }
}

/// Restores every binding that has not expired, and deletes the others from the database. A binding lasts at most `longest` from now: the
/// clock may have been set back since it was saved.
///
/// # Errors
/// Any database error.
pub async fn restore(
    store: &Store,
    locations: &Locations,
    names: &ListenerNames,
    (now, longest): (Time, Duration),
) -> Result<Loaded, StoreError> {
    let latest = u32::try_from((now + longest).unix_seconds()).unwrap_or(u32::MAX);
    let seconds = u32::try_from(now.unix_seconds()).unwrap_or(u32::MAX);
    let at_rest = store.locations();
    at_rest.delete_expired(seconds).await?;
    let loaded = at_rest.load_all(seconds, |address, row| {
        locations.restore(address, &in_memory(row, names, latest));
    });
    loaded.await
}

/// A saved binding as it was in memory. It expires at `latest`, if not before.
pub(super) fn in_memory<'r>(
    row: &'r BindingRow<'_>,
    names: &ListenerNames,
    latest: u32,
) -> Binding<'r> {
    Binding {
        contact: &row.contact,
        q: row.q,
        expires_at: row.expires_at.min(latest),
        call_id: &row.call_id,
        cseq: row.cseq,
        path: &row.path,
        instance: &row.instance,
        user_agent: &row.user_agent,
        source: row.source,
        listener: names.find(row),
        // Its connection was that of another process.
        connection: ConnectionId::NONE,
    }
}

/// The current bindings of an address of record, for the database.
pub fn snapshot<'a>(
    locations: &Locations,
    names: &'a ListenerNames,
    address: &'a [u8],
    now: Time,
) -> AddressBindings<'a> {
    let mut bindings = Vec::new();
    locations.visit(address, now, |binding| {
        bindings.push(BindingRow {
            contact: Cow::Owned(binding.contact.to_vec()),
            q: binding.q,
            expires_at: binding.expires_at,
            call_id: Cow::Owned(binding.call_id.to_vec()),
            cseq: binding.cseq,
            path: Cow::Owned(binding.path.to_vec()),
            instance: Cow::Owned(binding.instance.to_vec()),
            user_agent: Cow::Owned(binding.user_agent.to_vec()),
            source: binding.source,
            listener: Cow::Borrowed(names.name(binding.listener)),
        });
    });
    AddressBindings {
        address: Cow::Borrowed(address),
        bindings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_elements::location::LocationLimits;
    use sip_transport::Protocol;

    fn listener(address: &str, prefix_length: u8) -> Listener {
        let address = address.parse().expect("an address");
        Listener {
            protocol: Protocol::Udp,
            address,
            prefix_length,
            advertised: String::new(),
            behind_balancer: false,
        }
    }

    fn row(listener: &'static str, source: &str) -> BindingRow<'static> {
        BindingRow {
            contact: Cow::Borrowed(b"sip:a@192.0.2.7"),
            q: 1000,
            expires_at: 1,
            call_id: Cow::default(),
            cseq: 1,
            path: Cow::default(),
            instance: Cow::default(),
            user_agent: Cow::default(),
            source: source.parse().expect("an address"),
            listener: Cow::Borrowed(listener),
        }
    }

    #[tokio::test]
    async fn a_binding_of_a_clock_that_was_set_back_lasts_no_longer_than_a_new_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("t.db").display());
        let store = Store::open(&url).await.expect("opens");
        let names = ListenerNames::new(&[listener("192.0.2.1:5060", 24)]);
        let now = Time::from_unix_seconds(1_800_000_000);
        let bindings = [600, 86_400 * 3_650].map(|left| BindingRow {
            contact: Cow::Owned(format!("sip:a@192.0.2.7:{}", left % 10_000).into_bytes()),
            expires_at: 1_800_000_000 + left,
            ..row("udp:192.0.2.1:5060", "192.0.2.7:5060")
        });
        let saved = AddressBindings {
            address: Cow::Borrowed(b"alice@example.org"),
            bindings: bindings.into(),
        };
        store.locations().save(&[saved]).await.expect("saves");
        let locations = Locations::new(LocationLimits {
            max_bindings: 10,
            max_pending_changes: 10,
        });
        let longest = Duration::from_secs(3_600);
        let restored = restore(&store, &locations, &names, (now, longest)).await;
        assert_eq!(restored.expect("restores").bindings, 2);
        let mut left = Vec::new();
        locations.visit(b"alice@example.org", now, |binding| {
            left.push(binding.expires_at - 1_800_000_000);
        });
        left.sort_unstable();
        assert_eq!(left, [600, 3_600]);
    }

    #[test]
    fn a_binding_finds_its_listener_by_name_then_by_network_then_by_family() {
        let names = ListenerNames::new(&[
            listener("127.0.0.1:5060", 8),
            listener("192.0.2.1:5060", 24),
            listener("[2001:db8::1]:5060", 64),
        ]);
        assert_eq!(names.name(ListenerId(1)), "udp:192.0.2.1:5060");
        assert_eq!(
            names.find(&row("udp:192.0.2.1:5060", "127.0.0.9:1")),
            ListenerId(1)
        );
        assert_eq!(
            names.find(&row("udp:192.0.2.1:5070", "192.0.2.9:1")),
            ListenerId(1)
        );
        assert_eq!(names.find(&row("gone", "[2001:db9::9]:1")), ListenerId(2));
        assert_eq!(names.find(&row("gone", "198.51.100.1:1")), ListenerId(0));
    }

    #[test]
    fn a_binding_prefers_a_listener_of_its_own_transport() {
        let mut tcp = listener("127.0.0.1:5060", 8);
        tcp.protocol = Protocol::Tcp;
        let names = ListenerNames::new(&[listener("192.0.2.1:5060", 24), tcp]);
        assert_eq!(names.find(&row("tcp:", "192.0.2.9:1")), ListenerId(1));
        assert_eq!(names.find(&row("tls:", "192.0.2.9:1")), ListenerId(0));
    }
}
