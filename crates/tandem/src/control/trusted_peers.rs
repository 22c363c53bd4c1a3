//! Trusted peers that the database names: a group of Kamailio's table `address`.
use crate::config::{Configuration, Network};
use sip_transport::IpNet;
use tandem_store::{Store, StoreError};
use tracing::{info, warn};

/// Adds the networks of the configured group to `proxy.trusted_peers`.
///
/// # Errors
/// Any database error.
pub(crate) async fn add(
    configuration: &mut Configuration,
    store: &Store,
) -> Result<(), StoreError> {
    let group = configuration
        .kamailio()
        .and_then(|tables| tables.trusted_group);
    let Some(group) = group else {
        return Ok(());
    };
    let found = store.trusted_networks(group).await?;
    for row in &found.skipped {
        warn!("group {group} of the table address: {row}; the row is skipped");
    }
    let peers = &mut configuration.proxy.trusted_peers;
    let before = peers.len();
    for (address, length) in found.networks {
        let network = IpNet::new(address, length).map(|network| Network(network.trunc()));
        // The store checks the length.
        peers.extend(network.ok().filter(|network| !peers.contains(network)));
    }
    info!(
        "group {group} of the table address adds {} trusted peers",
        peers.len() - before
    );
    Ok(())
}
