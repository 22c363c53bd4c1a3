//! Misbehaviour that a server meets in practice: garbage, forged identities, attempts to use it as an open relay.
use super::client::Purpose;
use super::compose::Draft;
use super::{Phone, PhoneOutput};
use sip_message::Method;
use sip_transport::Time;
use std::net::SocketAddr;
use std::rc::Rc;

/// One kind of misbehaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// Random bytes.
    Noise,
    /// Only line ends.
    KeepAlive,
    /// The beginning of a request.
    Truncated(String),
    /// A request to this URI with some bytes changed at random.
    Mutated(String),
    /// A request with very many header fields.
    Overgrown(String),
    /// A response without a request.
    StrayResponse,
    /// A request for a transaction or dialog that never existed: ACK, CANCEL or BYE.
    Stray(&'static str, String),
    /// A call to a foreign address, from an identity that the server does not know.
    OpenRelay(SocketAddr),
    /// The same, with the address in a Route after the server's own.
    RelayByRoute(String, SocketAddr),
    /// The same, pretending to be inside a dialog: one of its own dialogs, if it has one.
    RelayByDialog(SocketAddr),
    /// A call to this URI in the name of this user, with the phone's own credentials.
    ForgedCall(String, String),
    /// A registration for this user, with the phone's own credentials.
    ForgedRegistration(String),
    /// A request that must not be forwarded again.
    NoForwards(String),
    /// A request routed through the server several times.
    Loop(String),
    /// The authenticated request of another phone, sent again from here in a new transaction.
    Replay(Rc<[u8]>),
}

impl Phone {
    pub(crate) fn misbehave(&mut self, now: Time, mischief: Mischief, output: &mut PhoneOutput) {
        let server = self.profile.server;
        match mischief {
            Mischief::Noise => {
                let length = self.dice.range(1, 300);
                let bytes: Vec<u8> = (0..length)
                    .map(|_| (self.dice.bits() >> 56) as u8)
                    .collect();
                output.send(server, &bytes.into());
            }
            Mischief::KeepAlive => output.send(server, &b"\r\n\r\n"[..].into()),
            Mischief::Truncated(uri) => {
                let bytes = self.loose_request(Method::Invite, &uri);
                let length = usize::try_from(self.dice.below(bytes.len() as u64)).unwrap_or(0);
                output.send(server, &bytes[..length].into());
            }
            Mischief::Mutated(uri) => self.send_mutated(&uri, output),
            Mischief::Overgrown(uri) => self.send_overgrown(&uri, output),
            Mischief::StrayResponse => self.send_stray_response(output),
            Mischief::Stray(method, uri) => {
                let bytes = self.loose_request(Method::from_bytes(method.as_bytes()), &uri);
                output.send(server, &bytes);
            }
            Mischief::OpenRelay(victim) => {
                let mut draft = self.draft_to(&format!("sip:victim@{victim}"), Method::Invite);
                draft.from = format!("<sip:stranger@elsewhere.test>;tag={}", self.dice.token());
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::RelayByRoute(uri, victim) => {
                let mut draft = self.draft_to(&uri, Method::Invite);
                draft.routes = vec![format!("<sip:{server};lr>"), format!("<sip:{victim};lr>")];
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::RelayByDialog(victim) => {
                let method = if self.dice.chance(500) {
                    Method::Bye
                } else {
                    Method::Invite
                };
                let uri = format!("sip:victim@{victim}");
                let contact = self.contact();
                let own = self
                    .calls
                    .iter_mut()
                    .find_map(|call| call.draft_elsewhere(method, &uri, &contact));
                let draft = own.unwrap_or_else(|| {
                    let mut draft = self.draft_to(&uri, method);
                    draft.to = format!("<{uri}>;tag={}", self.dice.token());
                    draft.routes = vec![format!("<sip:{server};lr>")];
                    draft
                });
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::ForgedCall(uri, user) => {
                let mut draft = self.draft_to(&uri, Method::Invite);
                draft.from = format!("<{user}>;tag={}", self.dice.token());
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::ForgedRegistration(user) => {
                let mut draft =
                    self.draft_to(&format!("sip:{}", self.profile.domain), Method::Register);
                draft.to = format!("<{user}>");
                if self.dice.chance(500) {
                    draft.from = format!("<{user}>;tag={}", self.dice.token());
                }
                draft.expires = Some(3600);
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::NoForwards(uri) => {
                let bytes = self.loose_request(Method::Invite, &uri);
                let text =
                    String::from_utf8_lossy(&bytes).replace("Max-Forwards: 70", "Max-Forwards: 0");
                output.send(server, &text.into_bytes().into());
            }
            Mischief::Loop(uri) => {
                let mut draft = self.draft_to(&uri, Method::Options);
                draft.routes = vec![format!("<sip:{server};lr>"); 4];
                self.start_client(now, draft, Purpose::Probe, output);
            }
            Mischief::Replay(bytes) => self.replay(&bytes, output),
        }
    }

    fn draft_to(&mut self, uri: &str, method: Method<'static>) -> Draft {
        let tag = self.dice.token();
        let dialog_forming = matches!(method, Method::Invite | Method::Register);
        Draft {
            method,
            uri: uri.to_owned(),
            from: self.own_from(&tag),
            to: format!("<{uri}>"),
            call_id: self.new_call_id(),
            cseq: 1,
            routes: Vec::new(),
            contact: dialog_forming.then(|| format!("<{}>", self.contact())),
            expires: None,
            session: None,
            with_body: method == Method::Invite,
        }
    }

    /// Writes a request that is sent once, without a transaction.
    fn loose_request(&mut self, method: Method<'static>, uri: &str) -> Rc<[u8]> {
        let draft = self.draft_to(uri, method);
        let (via, _) = self.new_via();
        draft.write(&via, None)
    }

    fn send_mutated(&mut self, uri: &str, output: &mut PhoneOutput) {
        let methods = [
            Method::Invite,
            Method::Register,
            Method::Options,
            Method::Message,
            Method::Bye,
            Method::Ack,
        ];
        let method = *self.dice.pick(&methods);
        let mut bytes = self.loose_request(method, uri).to_vec();
        for _ in 0..self.dice.range(1, 8) {
            let at = usize::try_from(self.dice.below(bytes.len() as u64)).unwrap_or(0);
            match self.dice.below(4) {
                0 => bytes[at] = (self.dice.bits() >> 56) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(
                    at,
                    b"\r\n:;,<>\"@ \0\xff"[usize::try_from(self.dice.below(12)).unwrap_or(0)],
                ),
                _ => {
                    let upto = (at + 20).min(bytes.len());
                    let piece = bytes[at..upto].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        output.send(self.profile.server, &bytes.into());
    }

    fn send_overgrown(&mut self, uri: &str, output: &mut PhoneOutput) {
        let bytes = self.loose_request(Method::Message, uri);
        let lines = "X-Filler: 0123456789\r\n"
            .repeat(usize::try_from(self.dice.range(60, 1500)).unwrap_or(60));
        let text = String::from_utf8_lossy(&bytes).replacen(
            "User-Agent",
            &format!("{lines}User-Agent"),
            1,
        );
        output.send(self.profile.server, &text.into_bytes().into());
    }

    fn send_stray_response(&mut self, output: &mut PhoneOutput) {
        let method = if self.dice.chance(500) {
            "INVITE"
        } else {
            "OPTIONS"
        };
        let status = *self
            .dice
            .pick(&[100_u16, 180, 200, 302, 404, 487, 503, 606]);
        let (server, token) = (self.profile.server, self.dice.token());
        let text = format!(
            "SIP/2.0 {status} Stray\r\nVia: SIP/2.0/UDP {server};branch=z9hG4bK{token}\r\n\
             Via: SIP/2.0/UDP {};branch=z9hG4bK{token}x\r\nFrom: <sip:a@b.test>;tag=1\r\nTo: <sip:c@d.test>;tag=2\r\n\
             Call-ID: {token}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n",
            self.address
        );
        output.send(server, &text.into_bytes().into());
    }

    /// Sends it with a new Via only, so that the credentials stay unchanged.
    fn replay(&mut self, bytes: &[u8], output: &mut PhoneOutput) {
        let (via, _) = self.new_via();
        let text = String::from_utf8_lossy(bytes);
        let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
        if let Some(line) = lines.iter_mut().find(|line| line.starts_with("Via: ")) {
            *line = format!("Via: {via}");
        }
        output.send(self.profile.server, &lines.join("\r\n").into_bytes().into());
    }
}
