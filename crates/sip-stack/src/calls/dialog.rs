//! A dialog as a user agent keeps it (RFC 3261 section 12).

use sip_message::{HeaderName, Message, NameAddr};
use sip_transport::Flow;

/// The most values of a route set. A response with more forms a dialog that cannot be used, as no request would fit into a datagram.
const MAX_ROUTES: usize = 64;

/// The peer's side of a dialog. Call-ID and the local tag are in the call, because all dialogs of a forked INVITE share them.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// The tag of the peer; empty for a peer of RFC 2543.
    pub(crate) remote_tag: Box<[u8]>,
    /// The peer's To or From, with its tag.
    pub(crate) remote: Box<[u8]>,
    /// The remote target: the URI of the peer's Contact.
    target: Box<[u8]>,
    /// The route set, in the order of sending: values of Route.
    routes: Vec<Box<[u8]>>,
    /// The `CSeq` number of our INVITE, which the ACK repeats.
    pub(crate) invite_cseq: u32,
    /// Whether a 2xx has confirmed it.
    pub(crate) is_confirmed: bool,
    /// The `CSeq` number of our last request.
    pub(crate) local_cseq: u32,
    /// The `CSeq` number of the peer's last request.
    pub(crate) remote_cseq: Option<u32>,
    /// How often we have sent BYE: once, and again for each challenge.
    pub(crate) byes: u8,
    /// The ACK of the peer's 2xx.
    pub(crate) ack: Option<Ack>,
}

/// An ACK as it was sent.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) flow: Flow,
    pub(crate) domain: Option<Box<[u8]>>,
    pub(crate) bytes: Box<[u8]>,
}

impl Dialog {
    /// The caller's side, from a provisional response with a tag or from a 2xx (section 12.1.2). `uri` is the Request-URI of the INVITE: the
    /// target of a peer that sends no Contact. `None` if the response has no usable To.
    pub(crate) fn of_response(response: &Message<'_>, uri: &[u8], cseq: u32) -> Option<Self> {
        let mut routes = routes_of(response)?;
        routes.reverse();
        Some(Self {
            remote_tag: response.to()?.tag().unwrap_or_default().into(),
            remote: response.header(HeaderName::To)?.into(),
            target: contact_of(response).unwrap_or(uri).into(),
            routes,
            invite_cseq: cseq,
            is_confirmed: false,
            local_cseq: cseq,
            remote_cseq: None,
            byes: 0,
            ack: None,
        })
    }

    /// The callee's side, from the INVITE (section 12.1.1). `None` if the INVITE has no usable Contact.
    pub(crate) fn of_invite(invite: &Message<'_>) -> Option<Self> {
        Some(Self {
            remote_tag: invite.from()?.tag().unwrap_or_default().into(),
            remote: invite.header(HeaderName::From)?.into(),
            target: contact_of(invite)?.into(),
            routes: routes_of(invite)?,
            invite_cseq: 0,
            is_confirmed: false,
            local_cseq: 0,
            remote_cseq: invite.cseq().map(|cseq| cseq.number),
            byes: 0,
            ack: None,
        })
    }

    /// Takes target and route set of the 2xx that confirms an early dialog (section 13.2.2.4).
    pub(crate) fn confirm(&mut self, response: &Message<'_>, cseq: u32) {
        (self.invite_cseq, self.local_cseq) = (cseq, cseq);
        self.refresh(response);
        if let Some(mut routes) = routes_of(response) {
            routes.reverse();
            self.routes = routes;
        }
    }

    /// Takes the target of a target refresh request (section 12.2.2).
    pub(crate) fn refresh(&mut self, message: &Message<'_>) {
        if let Some(target) = contact_of(message) {
            self.target = target.into();
        }
    }

    /// The Request-URI of our requests (section 12.2.1.1): the target, or the first route if that is a strict router.
    pub(crate) fn request_uri(&self) -> &[u8] {
        self.strict_router().unwrap_or(&self.target)
    }

    /// The URI that says where our requests go: the first route, else the target.
    pub(crate) fn next_hop(&self) -> &[u8] {
        let first = self.routes.first().and_then(|route| NameAddr::parse(route));
        first.map_or(&self.target, |route| route.uri_bytes)
    }

    /// The values of Route, in order.
    pub(crate) fn routes(&self) -> Vec<Box<[u8]>> {
        if self.strict_router().is_none() {
            return self.routes.clone();
        }
        let target = [b"<", &*self.target, b">"].concat();
        let rest = self.routes.iter().skip(1).cloned();
        rest.chain([target.into()]).collect()
    }

    /// The URI of the first route if it is a strict router, one without `lr`.
    fn strict_router(&self) -> Option<&[u8]> {
        let first = NameAddr::parse(self.routes.first()?)?;
        let is_loose = first.uri().is_none_or(|uri| uri.params.contains(b"lr"));
        (!is_loose).then_some(first.uri_bytes)
    }
}

/// The values of Record-Route as received. `None` if there are too many.
fn routes_of(message: &Message<'_>) -> Option<Vec<Box<[u8]>>> {
    let values = message.values(HeaderName::RecordRoute);
    let routes: Vec<Box<[u8]>> = values.take(MAX_ROUTES + 1).map(Into::into).collect();
    (routes.len() <= MAX_ROUTES).then_some(routes)
}

/// The URI in Contact, if it is a valid one.
fn contact_of<'m>(message: &Message<'m>) -> Option<&'m [u8]> {
    let contact = NameAddr::parse(message.values(HeaderName::Contact).next()?)?;
    contact.uri().map(|_| contact.uri_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &str) -> Vec<u8> {
        format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    fn dialog(lines: &str) -> Option<Dialog> {
        let bytes = response(lines);
        let message = Message::parse(&bytes).expect("a response");
        Dialog::of_response(&message, b"sip:fallback@b", 7)
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn the_caller_reverses_the_route_set() {
        let dialog = dialog(
            "Contact: <sip:b@192.0.2.9>\r\nRecord-Route: <sip:p2;lr>, <sip:p1;lr>\r\nRecord-Route: <sip:p0;lr>\r\n",
        )
        .expect("a dialog");
        let routes: Vec<String> = dialog.routes().iter().map(|it| text(it)).collect();
        assert_eq!(routes, ["<sip:p0;lr>", "<sip:p1;lr>", "<sip:p2;lr>"]);
        assert_eq!(text(dialog.request_uri()), "sip:b@192.0.2.9");
        assert_eq!(text(dialog.next_hop()), "sip:p0;lr");
        assert_eq!((&*dialog.remote_tag, dialog.local_cseq), (&b"2"[..], 7));
    }

    #[test]
    fn a_strict_router_takes_the_request_uri() {
        let dialog =
            dialog("Contact: <sip:b@192.0.2.9>\r\nRecord-Route: <sip:p1;lr>, <sip:p0>\r\n")
                .expect("a dialog");
        let routes: Vec<String> = dialog.routes().iter().map(|it| text(it)).collect();
        assert_eq!(routes, ["<sip:p1;lr>", "<sip:b@192.0.2.9>"]);
        assert_eq!(text(dialog.request_uri()), "sip:p0");
        assert_eq!(text(dialog.next_hop()), "sip:p0");
    }

    #[test]
    fn without_a_route_set_the_target_is_the_next_hop() {
        let without = dialog("").expect("a dialog");
        assert_eq!(text(without.next_hop()), "sip:fallback@b");
        assert!(without.routes().is_empty());
    }

    #[test]
    fn a_route_set_that_fits_in_no_message_forms_no_dialog() {
        let routes = "Record-Route: <sip:p;lr>\r\n".repeat(MAX_ROUTES + 1);
        assert!(dialog(&routes).is_none());
    }
}
