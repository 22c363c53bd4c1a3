//! The cost of a message: parse, validate, patch and forward, answer, digest, keys.
use divan::{Bencher, black_box, counter::BytesCount};
use sip_message::digest::{DigestInput, ha1_md5, ha1_sha256, response_md5, response_sha256};
use sip_message::{
    Credentials, HeaderName, KeyHasher, Message, NameAddr, Patch, ResponseWriter, Uri, Via,
    home_hash,
};
use std::net::SocketAddr;

/// An INVITE with SDP as a phone sends it through one proxy.
const INVITE: &[u8] = b"INVITE sip:bob@tandem.example.org SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK-524287-1---7f8b2c1d9e3a4f60;rport\r\n\
Max-Forwards: 70\r\n\
Route: <sip:192.0.2.1:5060;lr>\r\n\
Contact: <sip:alice@192.0.2.101:5060;ob>\r\n\
To: \"Bob\" <sip:bob@tandem.example.org>\r\n\
From: \"Alice\" <sip:alice@tandem.example.org>;tag=9fxced76sl\r\n\
Call-ID: 3848276298220188511@alice-phone.example.org\r\n\
CSeq: 1 INVITE\r\n\
Allow: INVITE, ACK, CANCEL, BYE, NOTIFY, REFER, MESSAGE, OPTIONS, INFO, SUBSCRIBE\r\n\
Supported: replaces, norefersub, extended-refer, timer, outbound, path\r\n\
Session-Expires: 1800\r\n\
User-Agent: Phone 5.2.1 (Linux)\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 244\r\n\
\r\n\
v=0\r\n\
o=alice 2890844526 2890844526 IN IP4 192.0.2.101\r\n\
s=-\r\n\
c=IN IP4 192.0.2.101\r\n\
t=0 0\r\n\
m=audio 49172 RTP/AVP 0 8 9 101\r\n\
a=rtpmap:0 PCMU/8000\r\n\
a=rtpmap:8 PCMA/8000\r\n\
a=rtpmap:9 G722/8000\r\n\
a=rtpmap:101 telephone-event/8000\r\n\
a=fmtp:101 0-16\r\n";

const OK: &[u8] = b"SIP/2.0 200 OK\r\n\
Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKd1f2e3a4b5c6;received=192.0.2.1\r\n\
Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK-524287-1---7f8b2c1d9e3a4f60;rport=5060;received=192.0.2.101\r\n\
Record-Route: <sip:192.0.2.1;lr>\r\n\
To: \"Bob\" <sip:bob@tandem.example.org>;tag=8321234356\r\n\
From: \"Alice\" <sip:alice@tandem.example.org>;tag=9fxced76sl\r\n\
Call-ID: 3848276298220188511@alice-phone.example.org\r\n\
CSeq: 1 INVITE\r\n\
Contact: <sip:bob@192.0.2.102:5060>\r\n\
Content-Length: 0\r\n\
\r\n";

const REGISTER: &[u8] = b"REGISTER sip:tandem.example.org SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bKnashds7;rport\r\n\
Max-Forwards: 70\r\n\
To: <sip:alice@tandem.example.org>\r\n\
From: <sip:alice@tandem.example.org>;tag=456248\r\n\
Call-ID: 843817637684230@998sdasdh09\r\n\
CSeq: 1827 REGISTER\r\n\
Contact: <sip:alice@192.0.2.101:5060>;expires=3600\r\n\
Authorization: Digest username=\"alice\", realm=\"tandem.example.org\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"sip:tandem.example.org\", response=\"6629fae49393a05397450978507c4ef1\", algorithm=MD5, cnonce=\"0a4f113b\", qop=auth, nc=00000001\r\n\
Content-Length: 0\r\n\
\r\n";

const AUTHORIZATION: &[u8] = b"Digest username=\"alice\", realm=\"tandem.example.org\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"sip:tandem.example.org\", response=\"6629fae49393a05397450978507c4ef1\", algorithm=MD5, cnonce=\"0a4f113b\", qop=auth, nc=00000001";

const HASHER: KeyHasher = KeyHasher::new((0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210));

fn source() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 101], 5060))
}

fn main() {
    // Long samples, because a single call is shorter than the resolution of the clock.
    divan::Divan::from_args().sample_size(2000).main();
}

#[divan::bench(args = ["invite", "ok", "register"])]
fn parse(bencher: Bencher, name: &str) {
    let bytes = message(name);
    bencher
        .counter(BytesCount::of_slice(bytes))
        .bench(|| Message::parse(black_box(bytes)).is_ok());
}

#[divan::bench(args = ["invite", "ok", "register"])]
fn parse_and_validate(bencher: Bencher, name: &str) {
    let bytes = message(name);
    bencher
        .counter(BytesCount::of_slice(bytes))
        .bench(|| Message::parse(black_box(bytes)).unwrap().validate().is_ok());
}

fn message(name: &str) -> &'static [u8] {
    match name {
        "invite" => INVITE,
        "ok" => OK,
        _ => REGISTER,
    }
}

/// The work of a proxy for a request: from received bytes to the bytes to send.
#[divan::bench]
fn forward_request(bencher: Bencher) {
    let (mut out, mut scratch) = (Vec::with_capacity(4096), Vec::with_capacity(1024));
    bencher.bench_local(|| {
        out.clear();
        let message = Message::parse(black_box(INVITE)).unwrap();
        let mut patch = Patch::with_scratch(&message, std::mem::take(&mut scratch));
        patch
            .request_uri(b"sip:bob@192.0.2.102:5060;ob")
            .top_via_source(source())
            .prepend(
                HeaderName::Via,
                b"SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKd1f2e3a4b5c6",
            )
            .prepend(HeaderName::RecordRoute, b"<sip:192.0.2.1;lr>")
            .remove_first_values(HeaderName::Route, 1)
            .max_forwards(69);
        patch.write(&mut out);
        scratch = patch.into_scratch();
        out.len()
    });
}

/// The work of a proxy for a response.
#[divan::bench]
fn forward_response(bencher: Bencher) {
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        out.clear();
        let message = Message::parse(black_box(OK)).unwrap();
        let mut patch = Patch::new(&message);
        patch.remove_first_values(HeaderName::Via, 1);
        patch.write(&mut out);
        out.len()
    });
}

#[divan::bench]
fn write_response(bencher: Bencher) {
    let mut out = Vec::with_capacity(4096);
    bencher
        .with_inputs(|| Message::parse(INVITE).unwrap())
        .bench_local_refs(|message| {
            out.clear();
            ResponseWriter::begin(
                &mut out,
                black_box(message),
                source(),
                404,
                "",
                Some(b"8321234356"),
            )
            .finish();
            out.len()
        });
}

#[divan::bench]
fn digest_md5(bencher: Bencher) {
    let ha1 = ha1_md5(b"alice", b"tandem.example.org", b"secret");
    let input = digest_input();
    bencher.bench(|| response_md5(black_box(&ha1), black_box(&input)));
}

#[divan::bench]
fn digest_sha256(bencher: Bencher) {
    let ha1 = ha1_sha256(b"alice", b"tandem.example.org", b"secret");
    let input = digest_input();
    bencher.bench(|| response_sha256(black_box(&ha1), black_box(&input)));
}

fn digest_input() -> DigestInput<'static> {
    DigestInput {
        method: b"REGISTER",
        uri: b"sip:tandem.example.org",
        nonce: b"dcd98b7102dd2f0e8b11d0f600bfb0c093",
        qop_auth: Some((b"00000001", b"0a4f113b")),
    }
}

#[divan::bench]
fn transaction_key(bencher: Bencher) {
    // A new message each time, because a message parses its Via only once.
    bencher
        .with_inputs(|| Message::parse(INVITE).unwrap())
        .bench_local_refs(|message| HASHER.server_transaction(black_box(message)));
}

#[divan::bench]
fn call_home(bencher: Bencher) {
    bencher.bench(|| home_hash(black_box(b"3848276298220188511@alice-phone.example.org")));
}

#[divan::bench]
fn credentials(bencher: Bencher) {
    bencher.bench(|| Credentials::parse(black_box(AUTHORIZATION)).is_some());
}

#[divan::bench]
fn via(bencher: Bencher) {
    let value = b"SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK-524287-1---7f8b2c1d9e3a4f60;rport";
    bencher.bench(|| Via::parse(black_box(value)).is_some());
}

#[divan::bench]
fn name_addr_and_uri(bencher: Bencher) {
    let value = b"\"Alice\" <sip:alice@tandem.example.org>;tag=9fxced76sl";
    bencher.bench(|| {
        NameAddr::parse(black_box(value))
            .and_then(|address| address.uri())
            .is_some()
    });
}

#[divan::bench]
fn address_of_record(bencher: Bencher) {
    let uri = Uri::parse(b"sip:alice@tandem.example.org").unwrap();
    let mut key = Vec::with_capacity(64);
    bencher.bench_local(|| {
        key.clear();
        black_box(&uri).write_address_of_record(&mut key);
        key.len()
    });
}
