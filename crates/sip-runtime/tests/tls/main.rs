//! TLS sessions against real peers in memory, and against OpenSSL through a local socket.

mod authority;
mod certificates;
mod cuts;
mod faults;
mod mutual;
mod openssl;
mod outgoing;
mod peer;
mod resumption;
mod updates;
