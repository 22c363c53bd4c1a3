//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) by rustls, without sockets: bytes in, bytes out.
//!
//! ```text
//!  TlsSettings ── load ──▶ TlsContext ─┬─ Certificates (chains, keys, SNI)
//!                          (SharedTls  ├─ TlsAcceptor ── TlsSession::accept
//!                           swaps it)  └─ TlsConnector ─ TlsSession::connect
//! ```
//!
//! A context never changes. A reload loads a new one and replaces the old one. New handshakes use the new context; established
//! sessions keep the old one.
//!
//! Sessions use rustls' unbuffered interface. With the buffered one, an idle session takes 7.9 kB, because it always keeps a read
//! buffer of four kilobytes. Here a session owns only its keys: 3.7 kB, or 4.4 kB with a client certificate. Resumption is
//! stateless: tickets are encrypted under rotating keys, and the server stores no sessions.

mod certificates;
mod context;
mod error;
mod facts;
mod identities;
mod load;
mod records;
mod session;
mod settings;
mod verify;

pub use certificates::{Certificate, Certificates};
pub use context::{SharedTls, TlsAcceptor, TlsConnector, TlsContext};
pub use error::{PlainText, TlsError};
pub use identities::PeerIdentities;
pub use load::{LoadError, LoadErrors};
pub use session::{Received, TlsSession};
pub use settings::{CertificateFiles, ClientCertificates, TlsSettings, TlsVersion};
