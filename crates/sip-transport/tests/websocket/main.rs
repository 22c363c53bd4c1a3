//! SIP over WebSocket: the opening handshake and the frames of both sides, and interoperability with tungstenite.

mod client;
mod frames;
mod handshake;
mod tungstenite_peer;

/// The key of RFC 6455 section 1.3, and the value that proves that it has been read.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MESSAGE: &str = "OPTIONS sip:h SIP/2.0\r\nl: 4\r\n\r\nbody";
