//! Why a TLS session ended, divided by whose fault it was.

use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;

/// What came instead of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainText {
    /// Letters: SIP or HTTP in the clear, most likely.
    Text,
    /// An octet that begins no TLS record of a handshake.
    Octet(u8),
}

/// Why a session cannot go on. Whatever there is to tell the peer (an alert) is in the session's output.
#[derive(Clone, Debug)]
pub enum TlsError {
    /// The peer does not speak TLS at all. Known from the first octet; it is told nothing.
    NotTls(PlainText),
    /// The peer broke the protocol, or gave up for a reason that blames neither side.
    PeerMisbehaved(Error),
    /// Both speak TLS, but share no version, cipher suite, group or signature scheme.
    NothingShared(Error),
    /// One side did not accept the other's certificate, or missed one.
    CertificateRefused(Error),
    /// The name to connect to is neither a DNS name nor an address.
    ServerName(Box<str>),
    /// Something failed on this side, or was asked for at the wrong time.
    Ours(Error),
}

impl TlsError {
    /// A word for each fault, to count by.
    pub const LABELS: [&'static str; 5] = [
        "not_tls",
        "peer_misbehaved",
        "nothing_shared",
        "certificate_refused",
        "ours",
    ];

    /// Place of this one in [`LABELS`](Self::LABELS).
    pub const fn place(&self) -> usize {
        match self {
            Self::NotTls(_) => 0,
            Self::PeerMisbehaved(_) => 1,
            Self::NothingShared(_) => 2,
            Self::CertificateRefused(_) => 3,
            Self::ServerName(_) | Self::Ours(_) => 4,
        }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match error {
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::NothingShared(error),
            Error::NoCertificatesPresented
            | Error::InvalidCertificate(_)
            | Error::UnsupportedNameType
            | Error::InvalidCertRevocationList(_) => Self::CertificateRefused(error),
            Error::AlertReceived(alert) => from_alert(alert, error),
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidEncryptedClientHello(_)
            | Error::InvalidMessage(_)
            | Error::DecryptError
            | Error::PeerMisbehaved(_)
            | Error::PeerSentOversizedRecord => Self::PeerMisbehaved(error),
            _ => Self::Ours(error),
        }
    }
}

/// What the peer complains about (RFC 8446 section 6.2).
fn from_alert(alert: AlertDescription, error: Error) -> TlsError {
    use AlertDescription as Alert;
    match alert {
        Alert::HandshakeFailure
        | Alert::ProtocolVersion
        | Alert::InsufficientSecurity
        | Alert::MissingExtension
        | Alert::NoApplicationProtocol
        | Alert::UnrecognisedName => TlsError::NothingShared(error),
        Alert::NoCertificate
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::CertificateRequired
        | Alert::BadCertificateStatusResponse => TlsError::CertificateRefused(error),
        _ => TlsError::PeerMisbehaved(error),
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTls(PlainText::Text) => {
                formatter.write_str("plain text where TLS was expected")
            }
            Self::NotTls(PlainText::Octet(octet)) => {
                write!(
                    formatter,
                    "no TLS: it begins with octet {octet:#04x}, a handshake begins with 0x16"
                )
            }
            Self::PeerMisbehaved(error) => write!(formatter, "the peer broke TLS: {error}"),
            Self::NothingShared(error) => write!(
                formatter,
                "no TLS version or algorithm that both sides have: {error}"
            ),
            Self::CertificateRefused(Error::AlertReceived(alert)) => {
                write!(formatter, "the peer refused our certificate: {alert:?}")
            }
            Self::CertificateRefused(Error::NoCertificatesPresented) => {
                formatter.write_str("the peer showed no certificate")
            }
            Self::CertificateRefused(Error::InvalidCertificate(reason)) => {
                formatter.write_str("the peer's certificate is refused: ")?;
                certificate(reason, formatter)
            }
            Self::CertificateRefused(error) => {
                write!(formatter, "the peer's certificate is refused: {error}")
            }
            Self::ServerName(name) => {
                write!(formatter, "\"{name}\" is neither a DNS name nor an address")
            }
            Self::Ours(error) => write!(formatter, "TLS failed on this side: {error}"),
        }
    }
}

/// The two reasons that operators meet daily, in words of their own.
fn certificate(reason: &CertificateError, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        CertificateError::UnknownIssuer => {
            formatter.write_str("no authority that is trusted here issued it")
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => write!(
            formatter,
            "it is for {}, not for {}",
            presented.join(", "),
            expected.to_str()
        ),
        other => write!(formatter, "{other}"),
    }
}

impl std::error::Error for TlsError {}
