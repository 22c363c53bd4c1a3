//! What the edge writes into Record-Route and Path (RFC 3261 section 16.6 step 4, RFC 3327, RFC 5626 section 5.1).
//!
//! ```text
//! <sip:ADVERTISED;lr;e=KIND NODE SEAL TOKEN>
//! ```
//!
//! KIND is a letter, NODE the number of a node in 8 hexadecimal digits, SEAL a keyed hash in 16, and TOKEN a flow token, which may be missing.
//! The values of a dialog name the node that has the call and, if the client on that side is reached over one flow only, that flow. The
//! value of a Path names the flow of the phone.
//!
//! The seal covers kind, node, token and, in dialogs, the Call-ID. A party of a dialog can therefore use the values only in that dialog. It
//! learns nothing from them but the address of the other party's flow.

use sip_message::{HeaderName, KeyHasher, Message, NameAddr, Scheme, Uri};
use sip_transport::{Flow, Listener, Protocol, flow_token};

/// Name of the URI parameter.
const PARAMETER: &[u8] = b"e";

/// Who sent the request that carries the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Record-Route in a client's request.
    FromClient,
    /// Record-Route in a node's request.
    FromNode,
    /// Path in a REGISTER.
    Path,
}

impl Kind {
    const ALL: [Self; 3] = [Self::FromClient, Self::FromNode, Self::Path];

    const fn letter(self) -> u8 {
        match self {
            Self::FromClient => b'c',
            Self::FromNode => b'n',
            Self::Path => b'p',
        }
    }
}

/// A value of the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteValue {
    /// Where it was written.
    pub kind: Kind,
    /// The number of the node that has the call; 0 in a Path.
    pub node: u32,
    /// The only way to the client; `None` if its Contact leads to it.
    pub flow: Option<Flow>,
}

impl RouteValue {
    /// Reads the value in a Route URI. `None` if no edge with this secret wrote it for this call.
    pub fn read(uri: &Uri<'_>, hasher: &KeyHasher, call_id: &[u8]) -> Option<Self> {
        let (kind, digits) = uri.params.value(PARAMETER)?.split_first()?;
        let kind = Kind::ALL.into_iter().find(|it| it.letter() == *kind)?;
        let (node, digits) = digits.split_at_checked(8)?;
        let (seal, token) = digits.split_at_checked(16)?;
        let value = Self {
            kind,
            node: u32::try_from(flow_token::read_number(node)?).ok()?,
            flow: match token {
                b"" => None,
                token => Some(flow_token::read(token)?),
            },
        };
        (flow_token::read_number(seal)? == value.seal(hasher, call_id)).then_some(value)
    }

    /// Appends the URI in angle brackets.
    pub fn write(
        &self,
        into: &mut Vec<u8>,
        listener: &Listener,
        hasher: &KeyHasher,
        call_id: &[u8],
    ) {
        into.extend_from_slice(b"<sip:");
        into.extend_from_slice(listener.advertised.as_bytes());
        let transport: &[u8] = match listener.protocol {
            Protocol::Udp => b"",
            Protocol::Tcp => b";transport=tcp",
            Protocol::Tls => b";transport=tls",
            Protocol::Ws => b";transport=ws",
            Protocol::Wss => b";transport=wss",
        };
        into.extend_from_slice(transport);
        into.extend_from_slice(b";lr;e=");
        into.push(self.kind.letter());
        flow_token::write_number(into, &self.node.to_be_bytes());
        flow_token::write_number(into, &self.seal(hasher, call_id).to_be_bytes());
        if let Some(flow) = self.flow {
            flow_token::write(into, flow);
        }
        into.push(b'>');
    }

    fn seal(&self, hasher: &KeyHasher, call_id: &[u8]) -> u64 {
        let token = self.flow.map(flow_token::octets);
        let call_id = match self.kind {
            Kind::FromClient | Kind::FromNode => call_id,
            Kind::Path => b"",
        };
        hasher.hash(&[
            b"edge route",
            &[self.kind.letter()],
            &self.node.to_be_bytes(),
            token.as_ref().map_or(&[][..], |octets| octets),
            call_id,
        ])
    }
}

/// The Route values on top of a request that are the edge's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRoutes {
    /// How many to remove.
    pub(crate) count: usize,
    /// What they say.
    pub(crate) value: Option<RouteValue>,
}

impl OwnRoutes {
    /// Reads the topmost values. A dialog has up to two values of the edge on each side of a node, both with the same content. The values of
    /// the other side, which may follow, are for the next time round. `is_own` says whether a URI names this edge: a phone may have been
    /// configured with it as its outbound proxy.
    pub(crate) fn of(
        request: &Message<'_>,
        hasher: &KeyHasher,
        is_own: impl Fn(&Uri<'_>) -> bool,
    ) -> Self {
        let mut routes = Self::default();
        if request.header(HeaderName::Route).is_none() {
            return routes;
        }
        let call_id = request.call_id().unwrap_or_default();
        for value in request.values(HeaderName::Route) {
            let Some(uri) = NameAddr::parse(value).and_then(|value| value.uri()) else {
                break;
            };
            if !matches!(uri.scheme, Scheme::Sip | Scheme::Sips) {
                break;
            }
            let read = RouteValue::read(&uri, hasher, call_id);
            let is_ours = match (read, routes.value) {
                (Some(read), Some(first)) => read == first,
                (Some(_), None) => true,
                (None, first) => first.is_none() && is_own(&uri),
            };
            if !is_ours {
                break;
            }
            routes.value = read.or(routes.value);
            routes.count += 1;
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sip_transport::{ConnectionId, ListenerId};

    const HASHER: KeyHasher = KeyHasher::new((1, 2));

    fn listener(protocol: Protocol) -> Listener {
        Listener {
            protocol,
            address: "192.0.2.1:5060".parse().expect("an address"),
            prefix_length: 24,
            advertised: "edge.example.org:5060".to_owned(),
            behind_balancer: false,
        }
    }

    fn flow() -> Flow {
        Flow {
            listener: ListenerId(1),
            connection: ConnectionId::new(0, 7),
            remote: "203.0.113.9:40000".parse().expect("an address"),
        }
    }

    fn values() -> Vec<RouteValue> {
        let value = |kind, flow| RouteValue {
            kind,
            node: 0x0123_abcd,
            flow,
        };
        let kinds = Kind::ALL.into_iter();
        kinds
            .flat_map(|kind| [value(kind, None), value(kind, Some(flow()))])
            .collect()
    }

    fn written(value: &RouteValue, call_id: &[u8]) -> String {
        let mut text = Vec::new();
        value.write(&mut text, &listener(Protocol::Tcp), &HASHER, call_id);
        String::from_utf8(text).expect("text")
    }

    fn read(text: &str, call_id: &[u8]) -> Option<RouteValue> {
        let uri = NameAddr::parse(text.as_bytes())?.uri()?;
        RouteValue::read(&uri, &HASHER, call_id)
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        for value in values() {
            let text = written(&value, b"c");
            assert!(text.starts_with("<sip:edge.example.org:5060;transport=tcp;lr;e="));
            assert_eq!(read(&text, b"c"), Some(value));
        }
    }

    #[test]
    fn a_value_of_a_dialog_is_good_for_that_dialog_only_and_a_path_for_all() {
        for value in values() {
            let is_path = value.kind == Kind::Path;
            assert_eq!(read(&written(&value, b"c"), b"d").is_some(), is_path);
        }
    }

    #[test]
    fn a_value_of_another_secret_is_nothing() {
        for value in values() {
            let text = written(&value, b"c");
            let uri = NameAddr::parse(text.as_bytes()).and_then(|it| it.uri());
            let uri = uri.expect("a URI");
            assert_eq!(RouteValue::read(&uri, &KeyHasher::new((1, 3)), b"c"), None);
        }
    }

    proptest! {
        #[test]
        fn one_wrong_digit_is_noticed(which in 0_usize..6, place: usize, digit in "[0-9a-z]") {
            let value = values()[which];
            let text = written(&value, b"c");
            let digits = text.rfind("e=").expect("the parameter") + 2..text.len() - 1;
            let place = digits.start + place % digits.len();
            prop_assume!(text[place..=place] != digit);
            let mut wrong = text;
            wrong.replace_range(place..=place, &digit);
            prop_assert_eq!(read(&wrong, b"c"), None);
        }
    }

    fn of<const N: usize>(routes: [&str; N]) -> OwnRoutes {
        let lines = routes.map(|route| format!("Route: {route}\r\n")).concat();
        let text = format!("BYE sip:a@h SIP/2.0\r\nCall-ID: c\r\n{lines}\r\n");
        let request = Message::parse(text.as_bytes()).expect("a request");
        OwnRoutes::of(&request, &HASHER, |uri| uri.host_bytes == b"192.0.2.1")
    }

    #[test]
    fn the_values_of_one_side_are_removed_and_those_of_the_other_stay() {
        let value = |kind, flow| RouteValue {
            kind,
            node: 1,
            flow,
        };
        let caller = value(Kind::FromClient, Some(flow()));
        let callee = value(Kind::FromNode, None);
        let [first, second] = [caller, callee].map(|value| written(&value, b"c"));
        let expected = |count, value| OwnRoutes { count, value };
        assert_eq!(of([]), expected(0, None));
        assert_eq!(of(["<sip:192.0.2.9;lr>", &first]), expected(0, None));
        assert_eq!(of([&first, &first, &second]), expected(2, Some(caller)));
        assert_eq!(
            of([&second, "<sip:n;lr>", &first]),
            expected(1, Some(callee))
        );
        assert_eq!(
            of(["<sip:192.0.2.1;lr>", &first]),
            expected(2, Some(caller))
        );
        assert_eq!(of(["<sip:192.0.2.1;lr>", "<sip:n;lr>"]), expected(1, None));
    }
}
