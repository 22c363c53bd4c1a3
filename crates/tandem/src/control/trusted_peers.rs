//! Trusted peers that the database names: a group of Kamailio's table `address`.
use super::state::Control;
use crate::config::{Configuration, Network};
use sip_transport::IpNet;
use std::sync::Arc;
use std::time::Duration;
use tandem_store::{Store, StoreError};
use tokio::time::timeout;
use tracing::{info, warn};

/// How long a reload waits for the group.
const PATIENCE: Duration = Duration::from_secs(5);

/// A group, with the networks that were read last.
#[derive(Debug)]
pub(crate) struct TrustedGroup {
    number: u32,
    networks: Vec<Network>,
}

impl TrustedGroup {
    /// Reads the group that the configuration names; `None` if it names none.
    ///
    /// # Errors
    /// Any database error.
    pub(crate) async fn read(
        configuration: &Configuration,
        store: &Store,
    ) -> Result<Option<Self>, StoreError> {
        let Some(number) = number(configuration) else {
            return Ok(None);
        };
        let found = store.trusted_networks(number).await?;
        for row in &found.skipped {
            warn!("group {number} of the table address: {row}; the row is skipped");
        }
        let networks = found.networks.into_iter().filter_map(|(address, length)| {
            // The store checks the length.
            let network = IpNet::new(address, length).ok()?;
            Some(Network(network.trunc()))
        });
        Ok(Some(Self {
            number,
            networks: networks.collect(),
        }))
    }

    /// Adds the networks to `proxy.trusted_peers`.
    pub(crate) fn add_to(&self, configuration: &mut Configuration) {
        let peers = &mut configuration.proxy.trusted_peers;
        let before = peers.len();
        for network in &self.networks {
            if !peers.contains(network) {
                peers.push(*network);
            }
        }
        info!(
            "group {} of the table address adds {} trusted peers",
            self.number,
            peers.len() - before
        );
    }
}

impl Control {
    /// Reads the group for a new configuration. While the database is away, a group that is in use keeps its networks, so that a reload
    /// of settings and certificates does not depend on the database.
    ///
    /// # Errors
    /// Any database error; if it is temporary, only for a group that is not in use.
    pub(super) async fn read_trusted_group(
        &self,
        configuration: &Configuration,
        store: &Store,
    ) -> Result<Option<Arc<TrustedGroup>>, StoreError> {
        let read = timeout(PATIENCE, TrustedGroup::read(configuration, store)).await;
        let error = match read.unwrap_or_else(|_| Err(late(store))) {
            Ok(group) => return Ok(group.map(Arc::new)),
            Err(error) => error,
        };
        let in_use = self.trusted_group.load_full();
        let kept = in_use.filter(|group| Some(group.number) == number(configuration));
        match kept.filter(|_| error.is_temporary()) {
            Some(group) => {
                warn!(
                    %error,
                    "cannot read group {} of the table address; the networks that were read last stay trusted",
                    group.number
                );
                Ok(Some(group))
            }
            None => Err(error),
        }
    }
}

fn number(configuration: &Configuration) -> Option<u32> {
    configuration
        .kamailio()
        .and_then(|tables| tables.trusted_group)
}

fn late(store: &Store) -> StoreError {
    StoreError::Away {
        url: store.url().to_owned(),
        problem: format!(
            "the table address was not read within {} s",
            PATIENCE.as_secs()
        ),
        remedy: "check the load of the database server, and the locks on this table",
    }
}
