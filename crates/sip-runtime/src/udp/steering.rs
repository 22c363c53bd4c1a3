//! Steering: the kernel gives a datagram to the home of its call, not to whichever worker its addresses pick.
//!
//! The sockets of one listener share its address (`SO_REUSEPORT`), one per worker, and a classic BPF program may choose among them, which
//! needs no privilege. Ours looks for a `Call-ID:` and computes [`worker_hash`] of what follows. It need not find one: what it leaves
//! to the kernel, or steers wrongly, is handed over by whoever reads it.
//!
//! [`worker_hash`]: sip_message::worker_hash

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT,
    BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MEM, BPF_MISC, BPF_MOD, BPF_MUL, BPF_RET,
    BPF_RSH, BPF_ST, BPF_STX, BPF_SUB, BPF_TAX, BPF_TXA, BPF_W, BPF_X, BPF_XOR, sock_filter,
    sock_fprog,
};
use sip_message::worker_hash::{BASIS, FINAL_FACTOR, FINAL_SHIFTS, OCTETS, PRIME};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What is looked for: a header line that begins so, as nearly all do.
const NAME: &[u8; 9] = b"\nCall-ID:";

/// A word of four octets is read at every sixth place: wherever the name begins, one of these words lies wholly within.
const STRIDE: u32 = (NAME.len() - 4 + 1) as u32;

/// How many words are read before the length is looked at again: whoever reads beyond it has the first socket picked, where the kernel
/// should pick. (A message that is cut off within its Call-ID still ends so, which does no harm.)
const STRIDES: u32 = 8;

/// No request line and no status line is shorter.
const BEGIN: u32 = 12;

/// How many octets are searched: Vias and Record-Routes often come first. A kernel before Linux 6.7 takes only a smaller program
/// (`net.core.optmem_max`).
const SEARCHED: [u32; 2] = [1_200, 400];

/// No socket has this index: the kernel picks one by the addresses.
const NO_OPINION: u32 = u32::MAX;

/// Has the kernel steer what arrives at the address of this socket, which one socket of each of `workers` shares, bound in their order.
///
/// # Errors
/// When the kernel takes no program. Nothing has changed then.
pub(crate) fn steer(socket: BorrowedFd<'_>, workers: u16) -> io::Result<()> {
    let mut refused = Ok(());
    for octets in SEARCHED {
        refused = attach(socket, &mut program(workers, octets));
        if refused.is_ok() {
            break;
        }
    }
    refused
}

fn attach(socket: BorrowedFd<'_>, program: &mut [sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of SO_ATTACH_REUSEPORT_CBPF exists"
    )]
    // SAFETY: pointer and length describe `program`, whose instructions are borrowed for the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn program(workers: u16, octets: u32) -> Vec<sock_filter> {
    let mut code = Vec::new();
    search(&mut code, BEGIN..octets);
    make_sure(&mut code);
    hash(&mut code);
    code.push(op(BPF_ALU | BPF_MOD | BPF_K, workers.into()));
    code.push(op(BPF_RET | BPF_A, 0));
    code
}

/// Finds the name, and goes on with X where it seems to begin.
fn search(code: &mut Vec<sock_filter>, octets: Range<u32>) {
    let mut found = [const { Vec::new() }; STRIDE as usize];
    for first in octets.step_by((STRIDE * STRIDES) as usize) {
        code.push(op(BPF_LD | BPF_W | BPF_LEN, 0));
        code.push(branch(BPF_JGE, first + STRIDE * STRIDES, 1, 0));
        code.push(op(BPF_RET | BPF_K, NO_OPINION));
        for stride in 0..STRIDES {
            let place = first + stride * STRIDE;
            code.push(op(BPF_LDX | BPF_IMM, place));
            code.push(op(BPF_LD | BPF_W | BPF_ABS, place));
            // A branch reaches no further than 255: each group has a table of jumps behind it, one for each part of the name.
            let to_table = (STRIDES - 1 - stride) * (2 + STRIDE) + STRIDE;
            for inside in 0..STRIDE {
                code.push(branch(BPF_JEQ, word(inside), to_table as u8, 0));
            }
        }
        code.push(op(BPF_JMP | BPF_JA, STRIDE));
        for jumps in &mut found {
            jumps.push(code.len());
            code.push(op(BPF_JMP | BPF_JA, 0));
        }
    }
    code.push(op(BPF_RET | BPF_K, NO_OPINION));
    for (inside, jumps) in (0..STRIDE).zip(found).rev() {
        land(code, &jumps);
        if inside > 0 {
            code.push(op(BPF_MISC | BPF_TXA, 0));
            code.push(op(BPF_ALU | BPF_SUB | BPF_K, inside));
            code.push(op(BPF_MISC | BPF_TAX, 0));
            code.push(op(BPF_JMP | BPF_JA, (inside - 1) * 4));
        }
    }
}

/// Reads the whole name at X, and goes on with X such that the value begins as far behind it as the name is long. Other space than one
/// blank between them is left to the workers.
fn make_sure(code: &mut Vec<sock_filter>) {
    let colon = NAME.len() as u32 - 1;
    let parts = [
        (BPF_W, 0, word(0)),
        (BPF_W, 4, word(4)),
        (BPF_B, colon, b':'.into()),
    ];
    for (size, inside, expected) in parts {
        code.push(op(BPF_LD | size | BPF_IND, inside));
        code.push(branch(BPF_JEQ, expected, 1, 0));
        code.push(op(BPF_RET | BPF_K, NO_OPINION));
    }
    code.push(op(BPF_LD | BPF_B | BPF_IND, NAME.len() as u32));
    code.push(branch(BPF_JEQ, b' '.into(), 0, 3));
    code.push(op(BPF_MISC | BPF_TXA, 0));
    code.push(op(BPF_ALU | BPF_ADD | BPF_K, 1));
    code.push(op(BPF_MISC | BPF_TAX, 0));
}

/// Computes the hash of the value, into A.
fn hash(code: &mut Vec<sock_filter>) {
    // Cells of the machine's memory.
    let (hash, begin) = (0, 1);
    code.push(op(BPF_STX, begin));
    code.push(op(BPF_LD | BPF_IMM, BASIS));
    code.push(op(BPF_ST, hash));
    let mut at_end = Vec::new();
    for octet in 0..OCTETS as u32 {
        code.push(op(BPF_LD | BPF_B | BPF_IND, NAME.len() as u32 + octet));
        code.push(branch(BPF_JGT, b' '.into(), 1, 0));
        if octet == 0 {
            code.push(op(BPF_RET | BPF_K, NO_OPINION));
        } else {
            at_end.push(code.len());
            code.push(op(BPF_JMP | BPF_JA, 0));
        }
        code.push(op(BPF_LDX | BPF_MEM, hash));
        code.push(op(BPF_ALU | BPF_XOR | BPF_X, 0));
        code.push(op(BPF_ALU | BPF_MUL | BPF_K, PRIME));
        code.push(op(BPF_ST, hash));
        code.push(op(BPF_LDX | BPF_MEM, begin));
    }
    land(code, &at_end);
    code.push(op(BPF_LD | BPF_MEM, hash));
    code.push(op(BPF_LDX | BPF_MEM, hash));
    code.push(op(BPF_ALU | BPF_RSH | BPF_K, FINAL_SHIFTS.0));
    code.push(op(BPF_ALU | BPF_XOR | BPF_X, 0));
    code.push(op(BPF_ALU | BPF_MUL | BPF_K, FINAL_FACTOR));
    code.push(op(BPF_ALU | BPF_RSH | BPF_K, FINAL_SHIFTS.1));
}

/// Four octets of the name, as the machine loads them.
fn word(inside: u32) -> u32 {
    let octets = NAME[inside as usize..].first_chunk();
    u32::from_be_bytes(*octets.expect("four octets"))
}

/// Lets these jumps land at what comes next.
fn land(code: &mut [sock_filter], jumps: &[usize]) {
    let here = code.len();
    for &jump in jumps {
        code[jump].k = (here - jump - 1) as u32;
    }
}

fn op(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Compares A with k; skips so many instructions if it holds, and so many if not.
fn branch(comparison: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = (BPF_JMP | comparison | BPF_K) as u16;
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels before 6.7 have 20,480 octets for it and turned down what was longer than some 1,130 instructions; none takes more than
    /// 4,096.
    #[test]
    fn programs_are_as_short_as_kernels_want_them() {
        let [long, short] = SEARCHED.map(|octets| program(64, octets).len());
        assert!(long <= 4_096, "{long}");
        assert!(short <= 1_120, "{short}");
    }
}
