//! Completes the topmost Via with the source of the request (RFC 3261 section 18.2.1, RFC 3581 section 4).
use crate::grammar::{offset_in, split_at};
use crate::write::{push_address, push_number};
use crate::{Host, Via};
use std::net::{IpAddr, SocketAddr};

/// Appends `via` with `received` and `rport` set from `source`. `received` is added if the sent-by host is not the source
/// address, or if `rport` was requested. A `received` written by the sender is never kept, because responses would follow it. A
/// value that the sender gave to `rport` is replaced as well.
pub(crate) fn push_completed_via(into: &mut Vec<u8>, via: &Via<'_>, source: SocketAddr) {
    let address = source.ip().to_canonical();
    if let Some(rport) = via.lone_rport {
        let (before, rest) = split_at(via.bytes, offset_in(via.bytes, rport));
        into.extend_from_slice(before);
        push_rport(into, source);
        into.extend_from_slice(split_at(rest, rport.len()).1);
        return push_received(into, address);
    }
    let mut received = via.host != Host::Address(address);
    let mut copied = 0;
    for param in via.params.raw() {
        let is_rport = param.name.eq_ignore_ascii_case(b"rport");
        if !is_rport && !param.name.eq_ignore_ascii_case(b"received") {
            continue;
        }
        let start = offset_in(via.bytes, param.bytes);
        into.extend_from_slice(via.bytes.get(copied..start).unwrap_or_default());
        copied = start + param.bytes.len();
        if is_rport {
            received = true;
            push_rport(into, source);
        }
    }
    into.extend_from_slice(split_at(via.bytes, copied).1);
    if received {
        push_received(into, address);
    }
}

fn push_rport(into: &mut Vec<u8>, source: SocketAddr) {
    into.extend_from_slice(b";rport=");
    push_number(into, u32::from(source.port()));
}

fn push_received(into: &mut Vec<u8>, address: IpAddr) {
    into.extend_from_slice(b";received=");
    push_address(into, address);
}
