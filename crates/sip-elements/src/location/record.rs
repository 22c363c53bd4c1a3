//! The bindings of one address of record, packed into one block of memory in the order they are tried.
//!
//! ```text
//! record  = added:2 ended:2 announce:1 count:2 address-length:2 address binding*
//! binding = q:2 expires:4 saved:4 cseq:4 listener:2 port:2 lengths:2,2,2,2,1 family:1 ip [worker:2 slot:4] contact call-id path instance
//!           user-agent
//! ```
//! Numbers are little-endian. Worker and slot identify the connection; they are there only if the family says so. The
//! user agent is the name, or two bytes with its number if its length is 255.
//!
//! A record is replaced, never changed. Only the [`Times`] beside it change, and they override the packed values. The
//! first fields say what this version changed compared with the previous one. So the worker that wins the race to swap it
//! in counts exactly that.

use super::Binding;
use super::times::{Moved, Times};
use super::user_agents::{UserAgents, kept};
use sip_transport::{ConnectionId, ListenerId};
use smallvec::SmallVec;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The maximum length of a packed binding in bytes.
pub(super) const MAX_BINDING: usize = 8_192;

const HEAD: usize = 9;
const FIXED: usize = 28;
const IPV4: usize = 4;
/// Replaces the length of a user agent's name if only its number is stored.
const NUMBERED: u8 = 255;
/// The length of the number in bytes.
const NUMBER: usize = 2;
/// A flag in the family: there is a connection.
const CONNECTED: u8 = 0x80;
/// The length of a connection's identifier in bytes.
const CONNECTION: usize = 6;
/// The address and its scope.
const IPV6: usize = 16 + 4;

/// A binding, and values that only the location service needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) binding: Binding<'a>,
    /// The `expires_at` that was last announced.
    pub(super) saved_until: u32,
    /// Whether the current change created or refreshed it. Not stored in the record.
    pub(super) fresh: bool,
}

/// What one version of a record changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// The number of new bindings.
    pub(super) added: u16,
    /// The number of bindings that ended.
    pub(super) ended: u16,
    /// Whether the change must be saved.
    pub(super) announce: bool,
}

/// The packed bindings of one address of record.
#[derive(Debug)]
pub(super) struct Record {
    packed: Box<[u8]>,
    times: Times,
}

impl Record {
    /// Packs the bindings. The caller has checked the lengths ([`packed_length`]).
    pub(super) fn pack(
        address: &[u8],
        difference: Difference,
        bindings: &[Stored<'_>],
        user_agents: &UserAgents,
    ) -> Self {
        let numbers: SmallVec<[Option<u16>; 2]> = bindings
            .iter()
            .map(|stored| number(user_agents, &stored.binding))
            .collect();
        let length = bindings.iter().zip(&numbers).map(|(stored, number)| {
            let name = kept(stored.binding.user_agent).len();
            packed_length(&stored.binding) - number.map_or(0, |_| name - NUMBER)
        });
        let length = HEAD + address.len() + length.sum::<usize>();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&difference.added.to_le_bytes());
        bytes.extend_from_slice(&difference.ended.to_le_bytes());
        bytes.push(u8::from(difference.announce));
        bytes.extend_from_slice(&(bindings.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(address.len() as u16).to_le_bytes());
        bytes.extend_from_slice(address);
        for (stored, number) in bindings.iter().zip(numbers) {
            pack_binding(&mut bytes, stored, number);
        }
        let times = match bindings {
            [only] => Times::of(&only.binding, only.saved_until),
            _ => Times::unused(),
        };
        Self {
            packed: bytes.into_boxed_slice(),
            times,
        }
    }

    /// The values that a refresh of the only binding changes.
    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    /// What this version changed.
    pub(super) fn difference(&self) -> Difference {
        let Some((&[a, b, c, d, announce], _)) = self.packed.split_first_chunk() else {
            return Difference::default();
        };
        Difference {
            added: u16::from_le_bytes([a, b]),
            ended: u16::from_le_bytes([c, d]),
            announce: announce != 0,
        }
    }

    /// The number of bindings, including expired ones.
    pub(super) fn count(&self) -> usize {
        self.split().map_or(0, |(count, _, _)| count)
    }

    /// When the first of its bindings ends.
    pub(super) fn first_end(&self, user_agents: &UserAgents) -> Option<u32> {
        match self.times.read() {
            Some((moved, _)) => Some(moved.expires_at),
            None => self
                .bindings(user_agents)
                .map(|stored| stored.binding.expires_at)
                .min(),
        }
    }

    pub(super) fn address(&self) -> &[u8] {
        self.split().map_or(&[], |(_, address, _)| address)
    }

    /// All bindings, including expired ones.
    pub(super) fn bindings<'a>(&'a self, user_agents: &'a UserAgents) -> Bindings<'a> {
        Bindings {
            packed: self.split().map_or(&[], |(_, _, rest)| rest),
            moved: self.times.read(),
            user_agents,
        }
    }

    fn split(&self) -> Option<(usize, &[u8], &[u8])> {
        let (&[_, _, _, _, _, a, b, c, d], rest) = self.packed.split_first_chunk::<HEAD>()?;
        let length = usize::from(u16::from_le_bytes([c, d]));
        let (address, rest) = rest.split_at_checked(length)?;
        Some((usize::from(u16::from_le_bytes([a, b])), address, rest))
    }
}

/// The maximum length of a binding in a record, in bytes.
pub(super) fn packed_length(binding: &Binding<'_>) -> usize {
    let address = if binding.source.is_ipv4() { IPV4 } else { IPV6 };
    let connection = if binding.connection.is_some() {
        CONNECTION
    } else {
        0
    };
    let strings =
        binding.contact.len() + binding.call_id.len() + binding.path.len() + binding.instance.len();
    FIXED + address + connection + strings + kept(binding.user_agent).len()
}

/// The number of a binding's user agent, if storing the number saves space.
fn number(user_agents: &UserAgents, binding: &Binding<'_>) -> Option<u16> {
    let name = kept(binding.user_agent);
    if name.len() > NUMBER {
        user_agents.number(name)
    } else {
        None
    }
}

fn pack_binding(bytes: &mut Vec<u8>, stored: &Stored<'_>, number: Option<u16>) {
    let Stored {
        binding,
        saved_until,
        ..
    } = stored;
    let number = number.map(u16::to_le_bytes);
    let (user_agent, length) = match &number {
        Some(number) => (&number[..], NUMBERED),
        None => (
            kept(binding.user_agent),
            kept(binding.user_agent).len() as u8,
        ),
    };
    let mut fixed = SmallVec::<[u8; FIXED + IPV6 + CONNECTION]>::new();
    fixed.extend_from_slice(&binding.q.to_le_bytes());
    fixed.extend_from_slice(&binding.expires_at.to_le_bytes());
    fixed.extend_from_slice(&saved_until.to_le_bytes());
    fixed.extend_from_slice(&binding.cseq.to_le_bytes());
    fixed.extend_from_slice(&binding.listener.0.to_le_bytes());
    fixed.extend_from_slice(&binding.source.port().to_le_bytes());
    for string in [
        binding.contact,
        binding.call_id,
        binding.path,
        binding.instance,
    ] {
        fixed.extend_from_slice(&(string.len() as u16).to_le_bytes());
    }
    fixed.push(length);
    let connection = binding.connection;
    let connected = if connection.is_some() { CONNECTED } else { 0 };
    match binding.source {
        SocketAddr::V4(source) => {
            fixed.push(4 | connected);
            fixed.extend_from_slice(&source.ip().octets());
        }
        SocketAddr::V6(source) => {
            fixed.push(6 | connected);
            fixed.extend_from_slice(&source.ip().octets());
            fixed.extend_from_slice(&source.scope_id().to_le_bytes());
        }
    }
    if connection.is_some() {
        fixed.extend_from_slice(&connection.worker().to_le_bytes());
        fixed.extend_from_slice(&connection.slot().to_le_bytes());
    }
    bytes.extend_from_slice(&fixed);
    for string in [
        binding.contact,
        binding.call_id,
        binding.path,
        binding.instance,
        user_agent,
    ] {
        bytes.extend_from_slice(string);
    }
}

/// Unpacks the bindings of a record.
#[derive(Clone, Debug)]
pub(super) struct Bindings<'a> {
    packed: &'a [u8],
    /// Overrides the values of the only binding.
    moved: Option<(Moved, u32)>,
    user_agents: &'a UserAgents,
}

impl<'a> Iterator for Bindings<'a> {
    type Item = Stored<'a>;

    #[inline]
    fn next(&mut self) -> Option<Stored<'a>> {
        let mut reader = Reader(self.packed);
        let q = reader.u16()?;
        let expires_at = reader.u32()?;
        let saved_until = reader.u32()?;
        let cseq = reader.u32()?;
        let listener = ListenerId(reader.u16()?);
        let port = reader.u16()?;
        let lengths = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let [user_agent, family] = reader.array()?;
        let source = if family & !CONNECTED == 4 {
            SocketAddr::V4(SocketAddrV4::new(
                Ipv4Addr::from(reader.array::<4>()?),
                port,
            ))
        } else {
            let ip = Ipv6Addr::from(reader.array::<16>()?);
            SocketAddr::V6(SocketAddrV6::new(ip, port, 0, reader.u32()?))
        };
        let connection = if family & CONNECTED == 0 {
            ConnectionId::NONE
        } else {
            ConnectionId::new(reader.u16()?, reader.u32()?)
        };
        let [contact, call_id, path, instance] = lengths;
        let binding = Binding {
            q,
            expires_at,
            cseq,
            source,
            listener,
            connection,
            contact: reader.slice(contact)?,
            call_id: reader.slice(call_id)?,
            path: reader.slice(path)?,
            instance: reader.slice(instance)?,
            user_agent: match user_agent {
                NUMBERED => self.user_agents.name(reader.u16()?),
                length => reader.slice(u16::from(length))?,
            },
        };
        self.packed = reader.0;
        let mut stored = Stored {
            binding,
            saved_until,
            fresh: false,
        };
        if let Some((moved, saved_until)) = self.moved {
            stored.binding.expires_at = moved.expires_at;
            stored.binding.cseq = moved.cseq;
            stored.saved_until = saved_until;
        }
        Some(stored)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    #[inline]
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    fn slice(&mut self, length: u16) -> Option<&'a [u8]> {
        let (slice, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(contact: &'static [u8], source: &str) -> Stored<'static> {
        let binding = Binding {
            contact,
            q: 700,
            expires_at: 4_000_000_000,
            call_id: b"843817637684230@998sdasdh09",
            cseq: 1826,
            path: b"<sip:edge.example.org;lr>,<sip:second.example.org;lr>",
            instance: b"\"<urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6>\"",
            user_agent: b"Phone/1.0",
            source: source.parse().unwrap(),
            listener: ListenerId(3),
            connection: ConnectionId::NONE,
        };
        Stored {
            binding,
            saved_until: 5,
            fresh: true,
        }
    }

    #[test]
    fn a_record_gives_back_what_was_packed() {
        let user_agents = UserAgents::new();
        let bindings = [
            stored(b"sip:a@192.0.2.1", "192.0.2.1:5062"),
            stored(b"sip:b", "[2001:db8::9]:1"),
        ];
        let difference = Difference {
            added: 2,
            ended: 1,
            announce: true,
        };
        let record = Record::pack(b"alice@example.org", difference, &bindings, &user_agents);
        assert_eq!(record.address(), b"alice@example.org");
        assert_eq!(record.count(), 2);
        assert_eq!(record.difference(), difference);
        let unpacked: Vec<_> = record.bindings(&user_agents).collect();
        assert_eq!(unpacked.len(), 2);
        for (packed, unpacked) in bindings.iter().zip(&unpacked) {
            assert_eq!(packed.binding, unpacked.binding);
            assert_eq!(unpacked.saved_until, 5);
            assert!(!unpacked.fresh);
        }
    }

    #[test]
    fn a_link_local_source_keeps_its_scope() {
        let user_agents = UserAgents::new();
        let mut one = stored(b"sip:a", "[fe80::1]:5060");
        one.binding.source =
            SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 5060, 0, 7));
        let record = Record::pack(b"a@b", Difference::default(), &[one], &user_agents);
        assert_eq!(
            record.bindings(&user_agents).next().unwrap().binding.source,
            one.binding.source
        );
    }

    #[test]
    fn a_long_user_agent_is_cut() {
        let user_agents = UserAgents::new();
        let long = [b'x'; 300];
        let mut one = stored(b"sip:a", "192.0.2.1:5062").binding;
        one.user_agent = &long;
        let packed = Stored {
            binding: one,
            saved_until: 0,
            fresh: false,
        };
        let record = Record::pack(b"a@b", Difference::default(), &[packed], &user_agents);
        assert_eq!(
            record
                .bindings(&user_agents)
                .next()
                .unwrap()
                .binding
                .user_agent,
            &long[..64]
        );
        assert_eq!(
            record.packed.len(),
            HEAD + 3 + packed_length(&one) - 64 + NUMBER
        );
    }
}
