//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) by rustls, without sockets: bytes in, bytes out.
//!
//! ```text
//!  TlsSettings ── load ──▶ TlsContext ─┬─ Certificates (chains, keys, SNI)
//!                          (SharedTls  ├─ TlsAcceptor ── TlsSession::accept
//!                           swaps it)  └─ TlsConnector ─ TlsSession::connect
//! ```
//!
//! A context never changes. A reload loads another one and swaps it: new handshakes take what is new, established sessions go on with
//! what they began with.
//!
//! Sessions use rustls' unbuffered interface. The buffered one keeps four kilobytes for what it reads, for ever: 7.9 kB for an idle session;
//! here it owns its keys and nothing else: 3.7 kB, 4.4 kB with a client's certificate. Resumption is stateless (tickets under keys that rotate): a server remembers no session.

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
