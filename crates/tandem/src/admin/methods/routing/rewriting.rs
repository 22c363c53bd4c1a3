//! How numbers and identities are written for a gateway, as `gateways.get` and `routes.explain` show it.
use crate::config::Keyword as _;
use serde_json::{Map, Value, json};
use sip_message::Uri;
use sip_routing::gateway::{CalledNumber, CallerIdentity, Gateway};

/// Adds what the configuration says about numbers and identities.
pub(super) fn describe(gateway: &Gateway, into: &mut Map<String, Value>) {
    let CalledNumber {
        format,
        strip,
        prefix,
    } = &gateway.rewriting().called;
    let called = json!({ "format": format.word(), "strip": strip, "prefix": prefix });
    let CallerIdentity {
        header,
        format,
        number,
        source,
        domain,
    } = &gateway.rewriting().caller;
    let caller = json!({
        "identity": header.name(),
        "caller": source.word(),
        "number": number,
        "format": format.word(),
        "domain": domain,
    });
    into.insert("trusted".to_owned(), json!(gateway.is_trusted()));
    into.insert("called".to_owned(), called);
    into.insert("caller".to_owned(), caller);
}

/// The called number that a gateway gets; null if it stays.
pub(super) fn called(gateway: &Gateway, uri: &[u8]) -> Value {
    let rewritten = gateway.rewriting().called(uri);
    let user = Uri::parse(&rewritten).and_then(|uri| uri.user);
    let changed = user.filter(|_| *rewritten != *uri);
    json!(changed.map(String::from_utf8_lossy))
}
