//! How many connections the process may have by its limit of open descriptors, and whether that is what the configuration promises.
use crate::config::{Configuration, Transport};

/// Descriptors beside connections: sockets of listeners and workers, the database, the admin interface.
const OTHERS: u64 = 100;

/// Says where the configuration allows more connections than there can be. `limit`: descriptors that the process may open; `None`: as
/// many as it likes.
pub fn shortage(configuration: &Configuration, limit: Option<u64>) -> Option<String> {
    let listens = configuration.listen.iter();
    if listens
        .into_iter()
        .all(|listen| listen.transport == Transport::Udp)
    {
        return None;
    }
    let limit = limit?;
    let workers = u64::from(configuration.workers.count.resolve());
    let wanted = configuration.connections.max as u64 * workers;
    (wanted + OTHERS > limit).then(|| {
        format!(
            "`connections.max` allows {wanted} connections over all workers, the limit of open files (RLIMIT_NOFILE) only about {}: whoever \
             comes then is refused. Raise the limit (LimitNOFILE= of systemd, ulimit -n) or lower `connections.max`",
            limit.saturating_sub(OTHERS)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Listen;

    fn configured(max: usize, transport: Transport) -> Configuration {
        let mut configuration = Configuration::default();
        configuration.connections.max = max;
        configuration.listen = vec![Listen {
            transport,
            ..Listen::default()
        }];
        configuration
    }

    #[test]
    fn more_connections_than_descriptors_are_told() {
        let configuration = configured(1_000_000, Transport::Tcp);
        let told = shortage(&configuration, Some(20_000)).expect("a shortage");
        assert!(
            told.contains("about 19900") && told.contains("connections.max"),
            "{told}"
        );
        assert_eq!(shortage(&configuration, None), None);
        assert_eq!(
            shortage(&configured(10, Transport::Tcp), Some(20_000)),
            None
        );
    }

    #[test]
    fn datagrams_need_no_descriptors() {
        assert_eq!(
            shortage(&configured(1_000_000, Transport::Udp), Some(200)),
            None
        );
    }
}
