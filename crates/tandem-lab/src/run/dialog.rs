//! A call's dialog at the caller (RFC 3261 section 12.1.2).

use super::messages::Port;
use sip_message::{HeaderName, Host, Message, NameAddr, Uri};
use sip_transport::Flow;
use std::net::SocketAddr;

/// Data for requests within the dialog.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// To, with the callee's tag.
    pub(crate) to: Box<[u8]>,
    /// The callee's contact.
    pub(crate) target: Box<[u8]>,
    /// Route header fields, in the order of sending.
    pub(super) routes: Vec<Box<[u8]>>,
    /// The flow for requests.
    pub(super) flow: Flow,
}

impl Dialog {
    /// From the 2xx of an INVITE. `None` if its contact cannot be reached.
    pub(crate) fn of(
        response: &Message<'_>,
        port: &Port,
        server: Option<SocketAddr>,
    ) -> Option<Self> {
        let contact = NameAddr::parse(response.values(HeaderName::Contact).next()?)?;
        let routes: Vec<&[u8]> = response.values(HeaderName::RecordRoute).collect();
        // A proxy with Record-Route is reached at the address that received the INVITE.
        let remote = match server {
            Some(server) if !routes.is_empty() => server,
            _ => address_of(&contact.uri()?)?,
        };
        Some(Self {
            to: response.header(HeaderName::To)?.into(),
            target: contact.uri_bytes.into(),
            routes: routes.into_iter().rev().map(Into::into).collect(),
            flow: Flow::to(port.listener, remote),
        })
    }
}

fn address_of(uri: &Uri<'_>) -> Option<SocketAddr> {
    match uri.host {
        Host::Address(ip) => Some(SocketAddr::new(ip, uri.port.unwrap_or(5060))),
        Host::Name(_) => None,
    }
}
