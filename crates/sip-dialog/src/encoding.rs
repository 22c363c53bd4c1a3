//! A confirmed dialog as bytes, so that a node knows it again after a restart, and other nodes when this one is gone. The first byte is the
//! version. During an upgrade, nodes of two versions read each other's dialogs. A newer one appends what it adds, and keeps the version as
//! long as older ones can do without the addition.

use crate::dialog::{Dialog, Side};
use crate::party::Leg;
use crate::texts::{Text, Texts};
use sip_transaction::Account;
use sip_transport::{Flow, ListenerId, Protocol, Time};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of the encoding.
const VERSION: u8 = 3;
/// The number of texts in version 1, without the names of a gateway and of a limit, and in version 2, without those who diverted the call.
const FORMER_TEXTS: [usize; 2] = [12, 14];
/// The bytes between the two sides and the texts: four times, the status, the number of attempts, and whether it is whole.
const BETWEEN: usize = 4 * 8 + 2 + 2 + 1;

impl Dialog {
    /// The dialog as bytes. Connections are left out, because they end with the process.
    pub fn encode(&self) -> Box<[u8]> {
        let mut into = Vec::with_capacity(128 + self.bytes());
        into.push(VERSION);
        into.extend_from_slice(&self.id().to_be_bytes());
        for side in [&self.caller, &self.callee] {
            encode_side(&mut into, side);
        }
        let micros = |time: Option<Time>| time.map_or(0, Time::as_micros);
        for time in [
            self.started.as_micros(),
            micros(self.ringing),
            micros(self.answered),
            self.expires().as_micros(),
        ] {
            into.extend_from_slice(&time.to_be_bytes());
        }
        into.extend_from_slice(&self.status.to_be_bytes());
        into.extend_from_slice(&self.attempts.to_be_bytes());
        into.push(u8::from(self.is_whole()));
        for text in Text::ALL {
            let text = self.text(text);
            into.extend_from_slice(&(text.len() as u16).to_be_bytes());
            if !text.is_empty() {
                into.extend_from_slice(text);
            }
        }
        into.into_boxed_slice()
    }

    /// The Call-ID in [`Dialog::encode`]. The rest is not read. `None` if the bytes are not a dialog of this version.
    pub fn encoded_call_id(mut state: &[u8]) -> Option<&[u8]> {
        let [1..=VERSION] = take(&mut state)? else {
            return None;
        };
        take::<16>(&mut state)?;
        decode_side(&mut state)?;
        decode_side(&mut state)?;
        take::<BETWEEN>(&mut state)?;
        // The first text.
        let length = u16::from_be_bytes(take(&mut state)?);
        state.get(..usize::from(length))
    }

    /// Reads [`Dialog::encode`] and looks at the dialog. `None` if the bytes are not a confirmed dialog of this version.
    pub fn read<T>(state: &[u8], look: impl FnOnce(&Self) -> T) -> Option<T> {
        Self::decode(state).map(|dialog| look(&dialog))
    }

    /// Reads [`Dialog::encode`]. `None` if the bytes are not a confirmed dialog of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let texts_in_it = match take(&mut rest)? {
            [VERSION] => Text::ALL.len(),
            [former @ 1..VERSION] => *FORMER_TEXTS.get(usize::from(former - 1))?,
            _ => return None,
        };
        let id = take::<16>(&mut rest)?;
        let caller = decode_side(&mut rest)?;
        let callee = decode_side(&mut rest)?;
        let mut time = || Some(u64::from_be_bytes(take(&mut rest)?));
        let (started, ringing, answered, expires) = (time()?, time()?, time()?, time()?);
        let optional = |micros: u64| (micros > 0).then_some(Time::from_micros(micros));
        let status = u16::from_be_bytes(take(&mut rest)?);
        let attempts = u16::from_be_bytes(take(&mut rest)?);
        let [is_whole] = take(&mut rest)?;
        let mut texts = Vec::with_capacity(Text::ALL.len());
        for name in Text::ALL.into_iter().take(texts_in_it) {
            let length = u16::from_be_bytes(take(&mut rest)?);
            let (text, behind) = rest.split_at_checked(usize::from(length))?;
            rest = behind;
            texts.push((name, text));
        }
        let (texts, fits) = Texts::pack(None, &texts);
        let dialog = Self {
            generation: 0,
            account: Account::KNOWN,
            id: u128::from_be_bytes(id).to_ne_bytes(),
            key: 0,
            texts,
            caller,
            callee,
            started: Time::from_micros(started),
            ringing: optional(ringing),
            answered: optional(answered),
            expires: Time::from_micros(expires),
            timer: None,
            status,
            attempts,
            forks: Box::default(),
            held: None,
            is_acknowledged: true,
            is_whole: is_whole == 1 && fits,
        };
        // What is left was added by a newer version.
        dialog.is_confirmed().then_some(dialog)
    }
}

fn encode_side(into: &mut Vec<u8>, side: &Side) {
    let Leg {
        flow,
        protocol,
        is_by_flow,
    } = side.leg;
    into.extend_from_slice(&side.cseq.to_be_bytes());
    into.extend_from_slice(&flow.listener.0.to_be_bytes());
    into.extend_from_slice(&[protocol as u8, u8::from(is_by_flow)]);
    match flow.remote.ip() {
        IpAddr::V4(ip) => {
            into.push(4);
            into.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            into.push(6);
            into.extend_from_slice(&ip.octets());
        }
    }
    into.extend_from_slice(&flow.remote.port().to_be_bytes());
}

fn decode_side(rest: &mut &[u8]) -> Option<Side> {
    let cseq = u32::from_be_bytes(take(rest)?);
    let listener = ListenerId(u16::from_be_bytes(take(rest)?));
    let [protocol, is_by_flow, family] = take(rest)?;
    let protocol = *Protocol::ALL.get(usize::from(protocol))?;
    let ip: IpAddr = match family {
        4 => Ipv4Addr::from(take::<4>(rest)?).into(),
        6 => Ipv6Addr::from(take::<16>(rest)?).into(),
        _ => return None,
    };
    let port = u16::from_be_bytes(take(rest)?);
    Some(Side {
        leg: Leg {
            flow: Flow::to(listener, SocketAddr::new(ip, port)),
            protocol,
            is_by_flow: is_by_flow == 1,
        },
        cseq,
    })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}
