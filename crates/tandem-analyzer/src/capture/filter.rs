//! The kernel's filter: a classic BPF program for the ports of SIP, so that RTP packets cost nothing.

use libc::sock_filter;

/// Maximum number of ports in the program.
pub const MAX_PORTS: usize = 100;

/// Bytes to keep of a packet: all.
const KEEP: u32 = 1 << 18;
/// `skb->pkt_type` and `skb->dev->type` as absolute loads.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
const HARDWARE_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE).cast_unsigned();

const UDP: u32 = 17;
const TCP: u32 = 6;
/// Extension headers of IPv6 after which ports are not checked: hop-by-hop, routing, fragment, destination options.
const EXTENSIONS: [u32; 4] = [0, 43, 44, 60];

/// A program for a socket that receives packets from the IP header on.
#[derive(Clone, Debug)]
pub struct Filter(Vec<sock_filter>);

/// The symbolic target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Accept,
    Drop,
    Version,
    Version4,
    Version6,
    Ports,
}

#[derive(Clone, Copy)]
enum Step {
    Here(Label),
    /// Code, operand.
    Do(u32, u32),
    /// Code of a jump, operand, target if true, target if false.
    If(u32, u32, Label, Label),
}

impl Filter {
    /// Accepts packets with one of these ports at either end (any port if empty), and all fragments, which have no ports. On a loopback
    /// interface it accepts only one of the two copies of each packet.
    pub fn new(ports: &[u16]) -> Self {
        use Label::{Accept, Drop, Next, Ports, Version, Version4, Version6};
        use Step::{Do, Here, If};
        const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
        const LOAD: u32 = libc::BPF_LD | libc::BPF_ABS;
        const OF_HEADER: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
        const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let mut steps = vec![
            Do(LOAD | libc::BPF_W, PACKET_TYPE),
            If(EQUAL, libc::PACKET_OUTGOING.into(), Next, Version),
            Do(LOAD | libc::BPF_W, HARDWARE_TYPE),
            If(EQUAL, libc::ARPHRD_LOOPBACK.into(), Drop, Version),
            Here(Version),
            Do(LOAD | libc::BPF_B, 0),
            Do(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf0),
            If(EQUAL, 0x40, Version4, Next),
            If(EQUAL, 0x60, Version6, Drop),
            Here(Version4),
            // All fragments except the first have an offset.
            Do(LOAD | libc::BPF_H, 6),
            If(
                libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
                0x1fff,
                Accept,
                Next,
            ),
            Do(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0),
            Do(LOAD | libc::BPF_B, 9),
            If(EQUAL, UDP, Ports, Next),
            If(EQUAL, TCP, Ports, Drop),
            Here(Version6),
            Do(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 40),
            Do(LOAD | libc::BPF_B, 6),
        ];
        steps.extend(EXTENSIONS.map(|extension| If(EQUAL, extension, Accept, Next)));
        steps.extend([
            If(EQUAL, UDP, Ports, Next),
            If(EQUAL, TCP, Ports, Drop),
            Here(Ports),
        ]);
        for at in [0, 2] {
            if !ports.is_empty() {
                steps.push(Do(OF_HEADER, at));
            }
            let wanted = ports.iter().take(MAX_PORTS);
            steps.extend(wanted.map(|port| If(EQUAL, u32::from(*port), Accept, Next)));
        }
        let keep = if ports.is_empty() { KEEP } else { 0 };
        steps.extend([
            Do(RETURN, keep),
            Here(Accept),
            Do(RETURN, KEEP),
            Here(Drop),
            Do(RETURN, 0),
        ]);
        Self(assemble(&steps))
    }

    /// The instructions.
    pub fn program(&self) -> &[sock_filter] {
        &self.0
    }
}

fn assemble(steps: &[Step]) -> Vec<sock_filter> {
    let is_instruction = |step: &&Step| !matches!(step, Step::Here(_));
    let place_of = |wanted: Label| {
        let label = steps
            .iter()
            .position(|step| matches!(step, Step::Here(label) if *label == wanted));
        let before = steps.iter().take(label.unwrap_or(steps.len()));
        before.filter(is_instruction).count()
    };
    let instructions = steps.iter().filter(is_instruction).enumerate();
    let assembled = instructions.map(|(here, step)| {
        let distance = |label| match label {
            Label::Next => 0,
            label => u8::try_from(place_of(label) - here - 1)
                .unwrap_or_else(|_| unreachable!("the number of ports is bounded")),
        };
        let (code, k, jt, jf) = match *step {
            Step::Do(code, k) => (code, k, 0, 0),
            Step::If(code, k, then, otherwise) => (code, k, distance(then), distance(otherwise)),
            Step::Here(_) => unreachable!("no instruction"),
        };
        sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        }
    });
    assembled.collect()
}
