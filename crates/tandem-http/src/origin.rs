//! Finds which host a request names, and whether it comes from a page of that host.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri, Version, header};
use std::net::IpAddr;

/// The authority that a request is for (RFC 9112 section 3.2). `Ok(None)` means HTTP/1.0 without Host, which no browser sends.
pub(crate) fn authority(
    version: Version,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Authority>, ()> {
    let mut values = headers.get_all(header::HOST).iter();
    let host = match (values.next(), values.next()) {
        (Some(_), Some(_)) => return Err(()),
        (Some(host), None) => Some(parse(host).ok_or(())?),
        (None, _) => None,
    };
    match (host, uri.authority()) {
        // By section 3.2.2 the request line would decide. A client that names two different hosts is refused instead.
        (Some(host), Some(named)) if !host.as_str().eq_ignore_ascii_case(named.as_str()) => Err(()),
        (Some(host), _) => Ok(Some(host)),
        (None, Some(named)) => Ok(Some(named.clone())),
        (None, None) if version < Version::HTTP_11 => Ok(None),
        (None, None) => Err(()),
    }
}

fn parse(value: &HeaderValue) -> Option<Authority> {
    let authority: Authority = value.to_str().ok()?.parse().ok()?;
    (!authority.as_str().contains('@')).then_some(authority)
}

/// The literal address in an authority.
pub(crate) fn literal(authority: &Authority) -> Option<IpAddr> {
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

/// Whether a page of this origin was loaded from that authority. The scheme is not compared, because a proxy in front may change it. Host
/// and port must be equal.
pub(crate) fn is_same(origin: &HeaderValue, authority: &Authority) -> bool {
    let parsed = origin.to_str().ok().and_then(|origin| {
        let rest = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))?;
        rest.parse::<Authority>().ok()
    });
    parsed.is_some_and(|parsed| {
        parsed.host().eq_ignore_ascii_case(authority.host())
            && parsed.port_u16() == authority.port_u16()
    })
}
