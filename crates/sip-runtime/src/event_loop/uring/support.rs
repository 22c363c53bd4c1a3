//! Finds out whether the kernel allows an `io_uring`, and if not, why.

use io_uring::{IoUring, Probe, opcode};
use rustix::io::Errno;
use std::{fmt, fs, io, thread};

/// Entries of the submission queue. More requests than this take several system calls.
pub(super) const SUBMISSIONS: u32 = 256;

/// Entries of the completion queue. The kernel keeps completions that do not fit until there is room.
pub(super) const COMPLETIONS: u32 = 4_096;

/// The sysctl with which an administrator restricts `io_uring`.
const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

/// Sets a ring up. The thread that will use it enables it later.
pub(super) fn set_up(submissions: u32, completions: u32) -> Result<IoUring, Refused> {
    // The teardown of a ring interrupts the system calls of the thread that set it up. A thread that has ended cannot be disturbed.
    let result = thread::spawn(move || set_up_here(submissions, completions)).join();
    result.unwrap_or_else(|_| Err(Refused::because(&Errno::IO.into())))
}

fn set_up_here(submissions: u32, completions: u32) -> Result<IoUring, Refused> {
    let ring = IoUring::builder()
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(completions)
        .build(submissions)
        .map_err(|error| Refused::because(&error))?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|error| Refused::because(&error))?;
    let needed = [
        opcode::PollAdd::CODE,
        opcode::PollRemove::CODE,
        opcode::RecvMsgMulti::CODE,
        opcode::SendMsg::CODE,
    ];
    if needed.into_iter().all(|code| probe.is_supported(code)) {
        Ok(ring)
    } else {
        Err(Refused::because(&Errno::INVAL.into()))
    }
}

/// Checks whether a ring can be created.
pub(in crate::event_loop) fn probe() -> Result<(), Refused> {
    set_up(SUBMISSIONS, COMPLETIONS).map(drop)
}

/// Why there is no ring, and what to do about it.
#[derive(Debug)]
pub(in crate::event_loop) struct Refused {
    errno: Option<Errno>,
    /// The value of [`SWITCH`], if it exists.
    switch: Option<String>,
}

impl Refused {
    fn because(error: &io::Error) -> Self {
        Self {
            errno: Errno::from_io_error(error),
            switch: fs::read_to_string(SWITCH)
                .ok()
                .map(|text| text.trim().to_owned()),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = self.switch.as_deref();
        match self.errno {
            Some(Errno::PERM) if matches!(switch, Some("1" | "2")) => write!(
                formatter,
                "the kernel does not allow io_uring: {SWITCH} is {}; write 0 to it, or use epoll",
                switch.unwrap_or_default()
            ),
            Some(Errno::PERM | Errno::ACCESS) => write!(
                formatter,
                "io_uring is forbidden to this process, by a seccomp filter most likely (container \
                 run-times have one): allow io_uring_setup, io_uring_enter and io_uring_register, \
                 or use epoll"
            ),
            Some(Errno::NOSYS) => write!(
                formatter,
                "this kernel has no io_uring, or a seccomp filter blocks it: use epoll"
            ),
            Some(Errno::INVAL) => write!(
                formatter,
                "the io_uring of this kernel is older than Linux 6.1: use epoll"
            ),
            Some(Errno::NOMEM) => write!(
                formatter,
                "not enough memory for io_uring: raise RLIMIT_MEMLOCK, or use epoll"
            ),
            Some(errno) => write!(formatter, "cannot set up io_uring: {errno}; use epoll"),
            None => write!(formatter, "cannot set up io_uring; use epoll"),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn reason(errno: Errno, switch: Option<&str>) -> String {
        let switch = switch.map(str::to_owned);
        let errno = Some(errno);
        Refused { errno, switch }.to_string()
    }

    #[test]
    fn a_refusal_names_what_forbids_the_ring() {
        for value in ["1", "2"] {
            let text = reason(Errno::PERM, Some(value));
            assert!(text.contains(&format!("{SWITCH} is {value}")), "{text}");
        }
        for (errno, switch, expected) in [
            (Errno::PERM, Some("0"), "seccomp"),
            (Errno::PERM, None, "seccomp"),
            (Errno::NOSYS, None, "no io_uring"),
            (Errno::INVAL, Some("0"), "older than Linux 6.1"),
            (Errno::NOMEM, Some("0"), "RLIMIT_MEMLOCK"),
            (Errno::MFILE, Some("0"), "Too many open files"),
        ] {
            let text = reason(errno, switch);
            assert!(text.contains(expected), "{text}");
        }
    }

    /// Makes the kernel refuse rings to the calling thread from now on, as container runtimes do.
    fn forbid_rings() {
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let is = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let answer = (libc::BPF_RET | libc::BPF_K) as u16;
        let mut steps = [
            // The first word that a seccomp filter sees is the number of the system call.
            step(load, 0, 0, 0),
            step(is, 0, 1, libc::SYS_io_uring_setup as u32),
            step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        #[expect(unsafe_code, reason = "no safe wrapper installs a filter")]
        // SAFETY: the filter and its steps outlive the calls, which only affect this thread.
        let results = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    ptr::from_ref(&filter),
                ),
            ]
        };
        assert_eq!(results, [0, 0]);
    }

    #[test]
    fn where_the_kernel_refuses_rings_auto_takes_epoll_and_io_uring_is_an_error() {
        use crate::EventLoopKind::{Auto, Epoll, IoUring};
        let settled = std::thread::spawn(|| {
            forbid_rings();
            (Auto.settle(), IoUring.settle())
        });
        let (auto, ring) = settled.join().expect("no panic");
        assert_eq!(auto.expect("epoll"), Epoll);
        let text = ring.expect_err("forbidden").to_string();
        assert!(
            text.contains("forbidden") && text.contains("seccomp"),
            "{text}"
        );
    }

    #[test]
    fn where_rings_can_be_had_io_uring_is_what_it_says() {
        use crate::EventLoopKind::IoUring;
        assert_eq!(IoUring.settle().expect("a kernel with rings"), IoUring);
    }
}
