//! The methods `bans.list`, `bans.add` and `bans.remove`.
use crate::control::{Control, Running};
use serde_json::{Value, json};
use sip_elements::bans::{Ban, Source};
use std::net::IpAddr;
use std::time::Duration;
use tandem_http::rpc::{Arguments, Failure, code};

/// Maximum duration of a manual ban: one year, in seconds.
pub(super) const LONGEST: u64 = 31_536_000;

fn source(arguments: &Arguments) -> Result<Source, Failure> {
    let given = arguments.text("source").unwrap_or_default();
    let network = given.strip_suffix("/56");
    let address = given.strip_suffix("/64").or(network).unwrap_or(given);
    let parsed: Option<IpAddr> = address.parse().ok();
    // These prefix lengths exist only for IPv6.
    let fits = |address: &IpAddr| address.is_ipv6() || !given.contains('/');
    let source = parsed.filter(fits).map(Source::of);
    let source = source.and_then(|source| match network {
        Some(_) => source.network(),
        None => Some(source),
    });
    source.ok_or_else(|| {
        let problem =
            format!("`source` = \"{given}\": must be an address, such as 192.0.2.7 or 2001:db8::7");
        Failure::new(code::INVALID_PARAMS, problem)
    })
}

pub(super) fn list(control: &Control, running: &Running) -> Value {
    let now = control.clock.now();
    let mut bans = Vec::new();
    running.shared.bans.for_each(now, |ban| bans.push(ban));
    bans.sort_unstable_by_key(|ban| ban.source);
    let shown = |ban: &Ban| json!({ "source": ban.source.to_string(), "seconds": (ban.until - now).as_secs() });
    json!({ "bans": bans.iter().map(shown).collect::<Vec<_>>() })
}

pub(super) fn add(
    control: &Control,
    running: &Running,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let source = source(arguments)?;
    let seconds = arguments.number("seconds").unwrap_or_else(|| {
        let bans = &control.configuration.load().bans;
        bans.duration.as_secs()
    });
    let until = control.clock.now() + Duration::from_secs(seconds);
    if !running.shared.bans.ban(source, until) {
        return Err(Failure::refused(
            "the table of bans is full: increase `bans.table`",
        ));
    }
    Ok(json!({ "source": source.to_string(), "seconds": seconds }))
}

pub(super) fn remove(running: &Running, arguments: &Arguments) -> Result<Value, Failure> {
    let lifted = running.shared.bans.lift(source(arguments)?);
    Ok(json!({ "removed": lifted }))
}
