//! Why a TLS session failed, by which side caused it.

use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;

/// What the peer sent instead of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainText {
    /// Text: probably SIP or HTTP without encryption.
    Text,
    /// A first byte that cannot begin a TLS handshake record.
    Octet(u8),
}

/// Why a session cannot continue. The alert for the peer, if there is one, is in the session's output.
#[derive(Clone, Debug)]
pub enum TlsError {
    /// The peer does not use TLS. The first byte shows it; no alert is sent.
    NotTls(PlainText),
    /// The peer violated the protocol, or ended the session for a reason that is neither side's fault.
    PeerMisbehaved(Error),
    /// Both sides use TLS but have no version, cipher suite, group or signature scheme in common.
    NothingShared(Error),
    /// One side rejected the other's certificate, or required one and got none.
    CertificateRefused(Error),
    /// The name to connect to is neither a DNS name nor an address.
    ServerName(Box<str>),
    /// A local failure, or a call at the wrong time.
    Ours(Error),
}

impl TlsError {
    /// A label for each kind of error, for metrics.
    pub const LABELS: [&'static str; 5] = [
        "not_tls",
        "peer_misbehaved",
        "nothing_shared",
        "certificate_refused",
        "ours",
    ];

    /// Index of this error in [`LABELS`](Self::LABELS).
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

/// The error that an alert of the peer stands for (RFC 8446 section 6.2).
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
                    "not TLS: the first byte is {octet:#04x}, a handshake begins with 0x16"
                )
            }
            Self::PeerMisbehaved(error) => {
                write!(formatter, "the peer violated the TLS protocol: {error}")
            }
            Self::NothingShared(error) => {
                write!(formatter, "no common TLS version or algorithm: {error}")
            }
            Self::CertificateRefused(Error::AlertReceived(alert)) => {
                write!(
                    formatter,
                    "the peer rejected the certificate of this server: {alert:?}"
                )
            }
            Self::CertificateRefused(Error::NoCertificatesPresented) => {
                formatter.write_str("the peer sent no certificate")
            }
            Self::CertificateRefused(Error::InvalidCertificate(reason)) => {
                formatter.write_str("the certificate of the peer is rejected: ")?;
                certificate(reason, formatter)
            }
            Self::CertificateRefused(error) => {
                write!(
                    formatter,
                    "the certificate of the peer is rejected: {error}"
                )
            }
            Self::ServerName(name) => {
                write!(formatter, "\"{name}\" is neither a DNS name nor an address")
            }
            Self::Ours(error) => write!(formatter, "TLS failed on this side: {error}"),
        }
    }
}

/// Clearer messages for the two reasons that operators see most often.
fn certificate(reason: &CertificateError, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        CertificateError::UnknownIssuer => formatter.write_str("its issuer is not trusted"),
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
