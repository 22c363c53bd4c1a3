//! SIP over WebSocket: the opening handshake and the frames, of either side, and with an implementation that we did not write.

mod client;
mod frames;
mod handshake;
mod tungstenite_peer;

/// The key of RFC 6455 section 1.3 and what proves that it has been read.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MESSAGE: &str = "OPTIONS sip:h SIP/2.0\r\nl: 4\r\n\r\nbody";
