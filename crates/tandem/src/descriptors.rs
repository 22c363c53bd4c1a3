//! Derives the maximum number of connections from the limit of open descriptors. Descriptors for other purposes are reserved, so that
//! connecting peers cannot cut off the admin interface or the database.
use crate::config::{Configuration, MAX_CONNECTIONS, MAX_PER_PEER};
use procfs::process::Process;
use sip_runtime::StreamOptions;
use sip_transport::Protocol;

/// Descriptors reserved for what the server opens at run time: connections of the admin interface and the database, sockets for DNS
/// queries, files that a reload reads.
const RESERVE: u64 = 192;

/// The reserve is at most the limit divided by this number.
const MAX_RESERVE: u64 = 4;

/// Connections reserved for those that the server opens: the total divided by this number, up to a maximum.
const KEPT_FOR_OPENING: usize = 8;
const MAX_KEPT_FOR_OPENING: usize = 1_024;

/// If the file sets no limit, one peer may have the total divided by this number.
const PART_OF_PEER: usize = 4;

/// Descriptors per worker in addition to its listeners: the event loop, the waker, and one for refusing connections.
const OF_WORKER: u64 = 3;

/// Descriptors assumed open before the workers start, if they cannot be counted.
const OTHERS: u64 = 40;

/// Limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    connections: usize,
    kept_for_opening: usize,
    per_peer: u32,
}

impl Room {
    /// Derives the limits from the limit of open descriptors (`None`: unlimited), of which `taken` are in use.
    pub fn new(configuration: &Configuration, limit: Option<u64>, taken: u64) -> Self {
        let connections = &configuration.connections;
        let wanted = connections.max.unwrap_or(MAX_CONNECTIONS);
        let all = wanted.min(left(limit, taken));
        let kept_for_opening = (all / KEPT_FOR_OPENING).min(MAX_KEPT_FOR_OPENING);
        let part = u32::try_from((all - kept_for_opening) / PART_OF_PEER).unwrap_or(u32::MAX);
        Self {
            connections: all,
            kept_for_opening,
            per_peer: connections
                .max_per_peer
                .unwrap_or(MAX_PER_PEER.min(part).max(1)),
        }
    }

    /// Applies the limits to the options of a data plane.
    pub fn apply(self, options: &mut StreamOptions) {
        options.max_connections = self.connections;
        options.kept_for_opening = self.kept_for_opening;
        options.max_per_peer = self.per_peer;
    }
}

/// Connections that remain within a limit.
fn left(limit: Option<u64>, taken: u64) -> usize {
    limit.map_or(usize::MAX, |limit| {
        let reserve = RESERVE.min(limit / MAX_RESERVE);
        usize::try_from(limit.saturating_sub(taken + reserve)).unwrap_or(usize::MAX)
    })
}

/// Descriptors in use once the server listens on so many `listeners`, including those open now if the system reports them.
pub fn taken(configuration: &Configuration, listeners: usize) -> u64 {
    let workers = u64::from(configuration.workers.count.resolve());
    let open = Process::myself().and_then(|process| process.fd_count());
    let open = open.map_or(OTHERS, |open| open as u64);
    open.max(OTHERS) + workers * (listeners as u64 + OF_WORKER)
}

/// A warning if the file asks for more connections than the limit allows.
pub fn shortage(configuration: &Configuration, limit: Option<u64>, taken: u64) -> Option<String> {
    let mut listens = configuration.listen.iter();
    if listens.all(|listen| listen.transport == Protocol::Udp) {
        return None;
    }
    let wanted = configuration.connections.max?;
    let left = left(limit, taken);
    (wanted > left).then(|| {
        format!(
            "`connections.max = {wanted}` exceeds what the limit of open files (RLIMIT_NOFILE) leaves, which is {left}: the server refuses \
             connections beyond that. Raise the limit (LimitNOFILE= of systemd, ulimit -n), lower `connections.max`, or omit it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Listen;

    fn configured(max: Option<usize>, transport: Protocol) -> Configuration {
        let mut configuration = Configuration::default();
        configuration.connections.max = max;
        configuration.listen = vec![Listen {
            transport,
            ..Listen::default()
        }];
        configuration
    }

    #[test]
    fn more_connections_than_descriptors_are_reported() {
        let configuration = configured(Some(1_000_000), Protocol::Tcp);
        let told = shortage(&configuration, Some(20_000), 100).expect("a shortage");
        assert!(
            told.contains("which is 19708") && told.contains("connections.max"),
            "{told}"
        );
        assert_eq!(shortage(&configuration, None, 100), None);
        let few = configured(Some(10), Protocol::Tcp);
        assert_eq!(shortage(&few, Some(20_000), 100), None);
    }

    #[test]
    fn the_default_adapts_to_the_limit() {
        let configuration = configured(None, Protocol::Tcp);
        assert_eq!(shortage(&configuration, Some(200), 100), None);
    }

    #[test]
    fn datagrams_need_no_descriptors() {
        let configuration = configured(Some(1_000_000), Protocol::Udp);
        assert_eq!(shortage(&configuration, Some(200), 100), None);
    }

    #[test]
    fn there_is_always_a_reserve_beside_the_connections() {
        for limit in [64, 100, 256, 1_024, 20_000, 1 << 30] {
            let configuration = configured(None, Protocol::Tcp);
            let room = Room::new(&configuration, Some(limit), 40);
            let reserve = limit - 40 - room.connections.min(limit as usize - 40) as u64;
            assert!(reserve >= RESERVE.min(limit / 4).min(limit - 40), "{limit}");
            let accepted = room.connections - room.kept_for_opening;
            assert!(
                room.per_peer == 1 || room.per_peer as usize <= accepted / 4,
                "{limit}"
            );
        }
        let unlimited = Room::new(&configured(None, Protocol::Tcp), None, 40);
        assert_eq!(
            unlimited,
            Room {
                connections: 1_000_000,
                kept_for_opening: 1_024,
                per_peer: 1_000,
            }
        );
    }

    #[test]
    fn what_the_file_says_counts_as_far_as_there_is_room() {
        let mut configuration = configured(Some(500), Protocol::Tcp);
        configuration.connections.max_per_peer = Some(400);
        let room = Room::new(&configuration, Some(20_000), 100);
        assert_eq!((room.connections, room.per_peer), (500, 400));
        let room = Room::new(&configuration, Some(400), 100);
        assert_eq!((room.connections, room.kept_for_opening), (200, 25));
    }
}
