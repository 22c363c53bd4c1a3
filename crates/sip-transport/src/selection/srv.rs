//! SRV records (RFC 2782): order by priority, and randomly by weight among equals.

use crate::Protocol;

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// Lowest first.
    pub priority: u16,
    /// The share of the calls among records of one priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The name of the server; `.` means that the service is not available.
    pub target: Box<str>,
}

/// The prefix before the domain in the name of a service.
pub(super) const fn prefix(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Udp => "_sip._udp",
        Protocol::Tcp => "_sip._tcp",
        Protocol::Tls => "_sips._tcp",
        Protocol::Ws => "_sip._ws",
        Protocol::Wss => "_sips._ws",
    }
}

/// The records in the order to try them.
///
/// RFC 2782 draws one record after the other, each with the probability that its weight has among the remaining ones. This
/// function gives each record an exponentially distributed time with its weight as the rate, and sorts by time, which yields the
/// same distribution. Each record draws on its own, from the seed and its own name. Therefore the order does not depend on how
/// the name server sorts, and two records do not change places when a third is added or removed.
pub(super) fn in_order(records: &[Srv], seed: u64) -> Vec<&Srv> {
    let offered = records
        .iter()
        .filter(|record| !matches!(&*record.target, "." | ""));
    let mut all: Vec<(&Srv, f64)> = offered
        .map(|record| (record, waiting_time(record, seed)))
        .collect();
    all.sort_by(|(a, a_waits), (b, b_waits)| {
        let by_priority = a.priority.cmp(&b.priority);
        by_priority.then(a_waits.total_cmp(b_waits))
    });
    all.into_iter().map(|(record, _)| record).collect()
}

fn waiting_time(record: &Srv, seed: u64) -> f64 {
    // "A very small chance of being selected" among others; equal chances among themselves.
    let rate = match record.weight {
        0 => 1.0 / 64.0,
        weight => f64::from(weight),
    };
    -unit(draw(record, seed)).ln() / rate
}

/// Maps 64 bits to a number above 0 and up to 1.
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are what a float has room for"
)]
fn unit(number: u64) -> f64 {
    ((number >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// The draw of a record: FNV-1a over its name and port, mixed with the seed as in `SplitMix64`. It need not withstand attacks,
/// because an attacker that names the servers can choose their weights as well.
fn draw(record: &Srv, seed: u64) -> u64 {
    let name = record
        .target
        .bytes()
        .map(|octet| octet.to_ascii_lowercase());
    let octets = name.chain(record.port.to_be_bytes());
    let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(mix(hash).wrapping_add(seed))
}

const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
