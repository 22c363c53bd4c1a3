#!/bin/sh
# Fills the corpora from the torture messages of RFC 4475 and RFC 5118. Targets that take messages get complete messages. Targets that
# take a header field get the header fields found in them.
set -eu
cd "$(dirname "$0")"
torture=../crates/sip-message/tests/torture

for target in datagram stream uri host params header_name header_via header_name_addr header_cseq header_credentials header_challenge \
    header_session_interval node websocket_handshake websocket_frames stun proxy_protocol connection flow_token record_route glance edge capture reassembly; do
    mkdir -p "corpus/$target"
done

# A record of the node target: control byte, length in two bytes, message.
record() {
    size=$(wc -c < "$2")
    printf "\\$(printf %03o "$1")\\$(printf %03o $((size % 256)))\\$(printf %03o $((size / 256)))"
    cat "$2"
}

# Two bytes, in network byte order.
number() {
    printf "\\$(printf %03o $(($1 / 256)))\\$(printf %03o $(($1 % 256)))"
}

# A capture file (pcap, network byte order, IP packets) with a message twice: in a datagram to the server, and in a segment from it.
pcap() {
    size=$(wc -c < "$1")
    printf '\241\262\303\324\000\002\000\004\000\000\000\000\000\000\000\000\000\000\377\377\000\000\000\145'
    printf '\000\000\000\001\000\000\000\002\000\000'; number $((size + 28)); printf '\000\000'; number $((size + 28))
    printf '\105\000'; number $((size + 28)); printf '\000\000\000\000\100\021\000\000\300\000\002\007\300\000\002\001'
    printf '\023\304\023\304'; number $((size + 8)); printf '\000\000'; cat "$1"
    printf '\000\000\000\001\000\000\000\003\000\000'; number $((size + 40)); printf '\000\000'; number $((size + 40))
    printf '\105\000'; number $((size + 40)); printf '\000\000\000\000\100\006\000\000\300\000\002\001\300\000\002\007'
    printf '\023\304\023\304\000\000\000\001\000\000\000\000\120\000\377\377\000\000\000\000'; cat "$1"
}

for message in "$torture"/*/*.dat; do
    name=$(basename "$message" .dat)
    # Options 2 (relay, no challenges), then the message, and again half a second later with answers.
    { printf '\002'; record 12 "$message"; record 61 "$message"; } > "corpus/node/$name"
    cp "$message" "corpus/datagram/$name"; cp "$message" "corpus/edge/$name"
    cp "$message" "corpus/glance/$name"
    pcap "$message" > "corpus/capture/$name"
    # Three segments, the second one last and twice.
    { printf '\003\050\000\002\144\000\377\310\000\004'; cat "$message" "$message"; } > "corpus/reassembly/$name"
    # No cuts, then three: at 10, 100 and 300.
    { printf '\000'; cat "$message"; } > "corpus/stream/$name"
    { printf '\000\001\100\000'; cat "$message"; } > "corpus/connection/$name"
    { printf '\003\012\000\144\000\054\001'; cat "$message"; cat "$message"; } > "corpus/stream/$name-cut"
done

# Writes the values of the header fields whose name matches $1, unfolded, to the corpora in the other arguments, one file per value.
seed_headers() {
    pattern=$1
    shift
    cat "$torture"/*/*.dat | tr -d '\000\r' |
        awk '/^[ \t]/ { line = line $0; next } { print line; line = $0 } END { print line }' |
        grep -a -i -E "^($pattern)[ ]*:" | sort -u | {
        count=0
        while IFS= read -r line; do
            count=$((count + 1))
            for corpus in "$@"; do
                printf '%s' "${line#*:}" | sed 's/^ *//' > "corpus/$corpus/seed-$count"
            done
        done
    }
}
seed_headers 'v|via' header_via params
seed_headers 'f|from|t|to|m|contact|route|record-route' header_name_addr
seed_headers 'cseq' header_cseq
seed_headers '(proxy-)?authorization' header_credentials header_challenge

count=0
for uri in 'sip:%61lice@atlanta.com;transport=TCP' 'sip:biloxi.com;method=REGISTER?to=sip:bob%40biloxi.com' 'sips:a:b@[2001:db8::9]:5061;lr' 'tel:+1-201-555-0123;phone-context=x'; do
    count=$((count + 1))
    printf '%s\nSIP:alice@AtLanTa.CoM;Transport=tcp' "$uri" > "corpus/uri/$count"
done
for host in example.org 192.0.2.1 '[2001:db8::1]' '[::ffff:192.0.2.1]' 1.2.3.4.example; do
    printf '%s' "$host" > "corpus/host/$host"
done
for name in Via v Call-ID WWW-Authenticate Proxy-Authorization Session-Expires x; do
    printf '%s' "$name" > "corpus/header_name/$name"
done
printf 'Digest realm="r", nonce="n", qop="auth,auth-int", stale=true, algorithm=SHA-256' > corpus/header_challenge/1
printf '1800;refresher=uac' > corpus/header_session_interval/1
printf 'Digest username="u", realm="r", nonce="n", uri="sip:r", response="0", qop=auth, nc=00000001, cnonce="c"' > corpus/header_credentials/1

key='dGhlIHNhbXBsZSBub25jZQ=='
{
    printf '\000\000GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n' "$key"
    printf 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\nOrigin: https://h\r\n\r\n'
} > corpus/websocket_handshake/request
{
    printf '\001\000HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
    printf 'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n'
} > corpus/websocket_handshake/response
# Hello and a close. From a client: one masked frame. From a server: two unmasked frames with a ping between them.
printf '\000\000\201\205\067\372\041\075\177\237\115\121\130\210\202\067\372\041\075\064\022' > corpus/websocket_frames/masked
printf '\001\001\003\000\001\003Hel\211\004ping\200\002lo\202\176\000\200%128s\210\002\003\350' '' > corpus/websocket_frames/bare
printf '\000\001\000\000\041\022\244\102transaction.' > corpus/stun/bare
printf '\000\001\000\020\041\022\244\102transaction.\000\003\000\004\000\000\000\000\200\042\000\004soft' > corpus/stun/attributes
signature='\015\012\015\012\000\015\012\121\125\111\124\012'
printf "$signature"'\041\021\000\020\300\000\002\012\306\063\144\001\023\304\023\305\004\000\001x' > corpus/proxy_protocol/v4
printf "$signature"'\041\041\000\044%16s%16s\023\304\023\305' 'source' 'destination' > corpus/proxy_protocol/v6
printf 'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n' > corpus/proxy_protocol/version-1
{ printf '\002'; record 12 corpus/stun/bare; } > corpus/node/stun
printf '\000\000\000' > corpus/record_route/whole
printf '\000\004\027sip:bob@192.0.2.66' > corpus/record_route/target
