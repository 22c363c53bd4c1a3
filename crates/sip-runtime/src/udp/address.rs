//! Converts socket addresses to and from the kernel's layout.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for a `sockaddr_in` or a `sockaddr_in6`, in the kernel's byte layout.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub(super) struct RawAddress([u8; RawAddress::CAPACITY as usize]);

const AF_INET: [u8; 2] = (libc::AF_INET as u16).to_ne_bytes();
const AF_INET6: [u8; 2] = (libc::AF_INET6 as u16).to_ne_bytes();

impl RawAddress {
    /// The size of the longest address, a `sockaddr_in6`.
    pub(super) const CAPACITY: libc::socklen_t = 28;
    const V4_LENGTH: libc::socklen_t = 16;

    pub(super) const fn empty() -> Self {
        Self([0; Self::CAPACITY as usize])
    }

    /// Writes `address` and returns how many bytes the kernel must read.
    pub(super) fn write(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(v4) => {
                let [a, b, c, d] = v4.ip().octets();
                let [high, low] = v4.port().to_be_bytes();
                self.0[..8].copy_from_slice(&[AF_INET[0], AF_INET[1], high, low, a, b, c, d]);
                self.0[8..16].fill(0);
                Self::V4_LENGTH
            }
            SocketAddr::V6(v6) => {
                self.0[..2].copy_from_slice(&AF_INET6);
                self.0[2..4].copy_from_slice(&v6.port().to_be_bytes());
                self.0[4..8].fill(0);
                self.0[8..24].copy_from_slice(&v6.ip().octets());
                self.0[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
                Self::CAPACITY
            }
        }
    }

    /// Copies an address that the kernel wrote elsewhere.
    pub(super) fn copy_from(&mut self, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// The address that the kernel wrote. `None` if its family is neither IPv4 nor IPv6.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        let [f0, f1, high, low, rest @ ..] = self.0;
        let port = u16::from_be_bytes([high, low]);
        match [f0, f1] {
            AF_INET => {
                let [a, b, c, d, ..] = rest;
                Some(SocketAddrV4::new([a, b, c, d].into(), port).into())
            }
            AF_INET6 => {
                let ip: [u8; 16] = self.0[8..24].try_into().ok()?;
                let scope = u32::from_ne_bytes(self.0[24..].try_into().ok()?);
                // The flow label does not identify the peer (RFC 6437).
                Some(SocketAddrV6::new(ip.into(), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, length: libc::socklen_t) {
        let address: SocketAddr = address.parse().expect("socket address");
        let mut raw = RawAddress([0xff; 28]);
        assert_eq!(raw.write(address), length);
        assert_eq!(raw.read(), Some(address));
    }

    #[test]
    fn addresses_come_back_as_they_were_written() {
        check("127.0.0.1:5060", 16);
        check("203.0.113.255:65535", 16);
        check("[::1]:5060", 28);
        check("[2001:db8::ff:1]:1", 28);
        check("[fe80::1%9]:5060", 28);
    }

    #[test]
    fn lies_in_memory_as_libc_declares_it() {
        assert_eq!(
            RawAddress::CAPACITY as usize,
            size_of::<libc::sockaddr_in6>()
        );
        assert_eq!(
            RawAddress::V4_LENGTH as usize,
            size_of::<libc::sockaddr_in>()
        );
        assert_eq!(align_of::<RawAddress>(), align_of::<libc::sockaddr_in6>());
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_port), 2);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 8);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_scope_id), 24);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in, sin_addr), 4);
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        assert_eq!(RawAddress::empty().read(), None);
    }
}
