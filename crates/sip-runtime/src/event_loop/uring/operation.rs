//! What a completion belongs to, encoded in the `user_data` of its request.

use std::os::fd::RawFd;

/// How many generations there are before the number wraps. By then the kernel has long dropped the
/// requests of the first one.
pub(super) const GENERATIONS: u32 = 1 << 30;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A request whose completion is ignored.
    Ignored,
    /// A poll request for a watched descriptor.
    Poll { descriptor: RawFd, generation: u32 },
    /// Receives the datagrams of a listener's socket.
    Receive { listener: u16 },
    /// Sends a GSO batch of datagrams.
    Send { slot: u16 },
}

const KIND: u32 = 62;
const POLL: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;

impl From<Operation> for u64 {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Ignored => 0,
            Operation::Poll {
                descriptor,
                generation,
            } => {
                POLL << KIND
                    | Self::from(generation % GENERATIONS) << 32
                    | Self::from(descriptor.cast_unsigned())
            }
            Operation::Receive { listener } => RECEIVE << KIND | Self::from(listener),
            Operation::Send { slot } => SEND << KIND | Self::from(slot),
        }
    }
}

impl From<u64> for Operation {
    fn from(word: u64) -> Self {
        match word >> KIND {
            POLL => Self::Poll {
                descriptor: (word as u32).cast_signed(),
                generation: (word >> 32) as u32 % GENERATIONS,
            },
            RECEIVE => Self::Receive {
                listener: word as u16,
            },
            SEND => Self::Send { slot: word as u16 },
            _ => Self::Ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_comes_back_as_it_went() {
        for operation in [
            Operation::Ignored,
            Operation::Poll {
                descriptor: 0,
                generation: 0,
            },
            Operation::Poll {
                descriptor: RawFd::MAX,
                generation: GENERATIONS - 1,
            },
            Operation::Receive { listener: u16::MAX },
            Operation::Send { slot: 63 },
        ] {
            assert_eq!(Operation::from(u64::from(operation)), operation);
        }
    }
}
