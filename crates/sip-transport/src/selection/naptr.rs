//! NAPTR records (RFC 3403) of SIP services (RFC 3263 section 4.1, RFC 7118 section 8).

use super::Service;
use crate::Protocol;

/// The maximum number of services to query.
const MAX_SERVICES: usize = 8;

/// A NAPTR record, without its regular expression, which SIP does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naptr {
    /// Lowest first; the lowest order with a usable record decides.
    pub order: u16,
    /// Lowest first, among records of one order.
    pub preference: u16,
    /// `s`: the replacement has SRV records.
    pub flags: Box<str>,
    /// Service and transport, such as `SIP+D2U`.
    pub service: Box<str>,
    /// The name of the SRV records.
    pub replacement: Box<str>,
}

/// The services to query, preferred first. `None` if no record is about SIP. Empty if there are records, but none is usable.
pub(super) fn services(
    records: &[Naptr],
    is_usable: impl Fn(Protocol) -> bool,
) -> Option<Vec<Service>> {
    if !records.iter().any(is_about_sip) {
        return None;
    }
    let mut usable: Vec<(&Naptr, Protocol)> = records
        .iter()
        .filter(|record| record.flags.eq_ignore_ascii_case("s"))
        .filter_map(|record| Some((record, protocol(&record.service)?)))
        .filter(|(_, protocol)| is_usable(*protocol))
        .collect();
    usable.sort_by_key(|(record, _)| (record.order, record.preference));
    let order = usable.first().map(|(record, _)| record.order);
    let first_order = usable
        .iter()
        .take_while(|(record, _)| Some(record.order) == order);
    let services = first_order
        .take(MAX_SERVICES)
        .map(|(record, protocol)| Service {
            name: record.replacement.clone(),
            protocol: *protocol,
        });
    Some(services.collect())
}

/// `SIP+D2…` and `SIPS+D2…`, including transports that this node does not know, such as SCTP.
fn is_about_sip(record: &Naptr) -> bool {
    let resolver = record.service.split_once('+').map(|(scheme, _)| scheme);
    resolver.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("SIP") || scheme.eq_ignore_ascii_case("SIPS")
    })
}

fn protocol(service: &str) -> Option<Protocol> {
    let known = [
        ("SIP+D2U", Protocol::Udp),
        ("SIP+D2T", Protocol::Tcp),
        ("SIPS+D2T", Protocol::Tls),
        ("SIP+D2W", Protocol::Ws),
        ("SIPS+D2W", Protocol::Wss),
    ];
    let found = known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(service));
    found.map(|(_, protocol)| *protocol)
}
