//! Steering: the kernel delivers a datagram to the home worker of its call, instead of choosing a worker by the addresses.
//!
//! The sockets of one listener, one per worker, share its address (`SO_REUSEPORT`). A classic BPF program may choose among them;
//! it needs no privilege. Ours searches for `Call-ID:` and computes [`worker_hash`] of the value. It may fail to find one: if the
//! kernel then chooses the worker, or if the program chooses the wrong one, that worker hands the message over.
//!
//! [`worker_hash`]: sip_message::worker_hash()

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

/// The start of a header line to search for. Nearly all implementations write it like this.
const NAME: &[u8; 9] = b"\nCall-ID:";

/// The program reads a four-byte word at every sixth offset. Wherever the name starts, one of these words is completely inside it.
const STRIDE: u32 = (NAME.len() - 4 + 1) as u32;

/// How many words are read before the length is checked again. A read beyond the end makes the kernel pick the first socket, where
/// it should choose by the addresses. (A message that is cut off within its Call-ID still ends this way, which does no harm.)
const STRIDES: u32 = 8;

/// No request line and no status line is shorter.
const BEGIN: u32 = 12;

/// How many bytes to search: Via and Record-Route header fields often come first. A kernel before Linux 6.7 accepts only a
/// smaller program (`net.core.optmem_max`).
const SEARCHED: [u32; 2] = [1_200, 400];

/// No socket has this index, so the kernel picks one by the addresses.
const NO_OPINION: u32 = u32::MAX;

/// Makes the kernel steer what arrives at the address of this socket. One socket of each of `workers` shares the address, bound
/// in the order of the workers.
///
/// # Errors
/// If the kernel rejects the programs. Nothing has changed then.
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
    // SAFETY: pointer and length describe `program`. Its instructions are borrowed for the call, which copies them.
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

/// Searches for the name. Continues with X at the offset where the name seems to start.
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
            // A branch reaches at most 255 instructions: each group is followed by a table of jumps, one for each part of the name.
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

/// Compares the whole name at X. Then sets X such that the value starts as far after it as the name is long. Only a single blank
/// between them is supported; other messages are left to the workers.
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

/// Computes the hash of the value into A.
fn hash(code: &mut Vec<sock_filter>) {
    // Memory cells of the BPF machine.
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

/// Four bytes of the name, as the BPF machine loads them.
fn word(inside: u32) -> u32 {
    let octets = NAME[inside as usize..].first_chunk();
    u32::from_be_bytes(*octets.expect("four octets"))
}

/// Makes these jumps land at the next instruction.
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

/// Compares A with k. Skips `jt` instructions if the comparison holds, otherwise `jf`.
fn branch(comparison: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = (BPF_JMP | comparison | BPF_K) as u16;
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels before 6.7 limit it to 20,480 bytes and rejected programs of more than about 1,130 instructions. No kernel accepts
    /// more than 4,096.
    #[test]
    fn programs_are_as_short_as_kernels_want_them() {
        let [long, short] = SEARCHED.map(|octets| program(64, octets).len());
        assert!(long <= 4_096, "{long}");
        assert!(short <= 1_120, "{short}");
    }
}
