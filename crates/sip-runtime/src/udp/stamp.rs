//! When the kernel received a datagram: the timestamp in its control data (`SO_TIMESTAMPNS`).

use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Room for the control data of a datagram. A timestamp takes half of it.
pub(super) const CONTROL: usize = 64;

/// A buffer for control messages, aligned like their header.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL]);

/// A wall-clock time, as time since the Unix epoch.
pub(crate) type WallTime = Duration;

/// Makes the kernel add a receive timestamp to each datagram.
pub(super) fn ask_for_stamps(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    #[expect(unsafe_code, reason = "no safe wrapper of SO_TIMESTAMPNS exists")]
    // SAFETY: pointer and length describe `on`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        let error = io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Bytes of a control message before its data: length, level and type.
const HEADER: usize = size_of::<libc::cmsghdr>();

/// Finds the timestamp among the control messages of a datagram.
pub(super) fn find(control: &[u8]) -> Option<WallTime> {
    control_messages(control).find_map(|(level, kind, data)| {
        let is_stamp = (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        is_stamp.then(|| read(data)).flatten()
    })
}

/// The complete control messages of a datagram: level, type and data of each.
pub(super) fn control_messages(
    mut control: &[u8],
) -> impl Iterator<Item = (libc::c_int, libc::c_int, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from_ne_bytes(*control.first_chunk()?);
        let level = number(control, size_of::<usize>())?;
        let kind = number(control, size_of::<usize>() + size_of::<libc::c_int>())?;
        let data = control.get(..length)?.get(HEADER..)?;
        let next = length.next_multiple_of(size_of::<usize>());
        control = control.get(next..).unwrap_or_default();
        Some((level, kind, data))
    })
}

fn number(control: &[u8], place: usize) -> Option<libc::c_int> {
    let bytes = control.get(place..)?;
    Some(libc::c_int::from_ne_bytes(*bytes.first_chunk()?))
}

/// Reads a `timespec`: two longs.
fn read(data: &[u8]) -> Option<WallTime> {
    let seconds = libc::c_long::from_ne_bytes(*data.first_chunk()?);
    let rest = data.get(size_of::<libc::c_long>()..)?;
    let nanoseconds = libc::c_long::from_ne_bytes(*rest.first_chunk()?);
    let seconds = u64::try_from(seconds).ok()?;
    let nanoseconds = u32::try_from(nanoseconds).ok()?;
    Some(Duration::new(seconds, nanoseconds.min(999_999_999)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: libc::c_int, kind: libc::c_int, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn stamp() -> Vec<u8> {
        let (seconds, nanoseconds): (libc::c_long, libc::c_long) = (1_700_000_000, 5_000);
        let data = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &data)
    }

    #[test]
    fn a_stamp_is_found_behind_other_control_messages() {
        let expected = Some(Duration::new(1_700_000_000, 5_000));
        assert_eq!(find(&stamp()), expected);
        let other = message(libc::IPPROTO_IP, libc::IP_TTL, &[1, 2, 3, 4]);
        assert_eq!(find(&[other, stamp()].concat()), expected);
    }

    #[test]
    fn control_messages_that_are_cut_short_have_no_stamp() {
        let whole = stamp();
        for length in 0..HEADER + 16 {
            assert_eq!(find(&whole[..length]), None, "{length}");
        }
        assert_eq!(find(&[0; CONTROL]), None, "a length of zero ends");
    }
}
