//! Reads any bytes as a capture file. The file is read to its end or rejected. Every packet is counted in some way, and
//! all bounds hold.
//!
//! Input: the file. The server is 192.0.2.1, 127.0.0.1 and 2001:db8::1.
#![no_main]
use libfuzzer_sys::fuzz_target;
use tandem_analyzer::capture::file;
use tandem_analyzer::{Analysis, Bounds, Counter, Exports, Servers};

const BOUNDS: Bounds = Bounds {
    messages: 8,
    lifetime: 32_000_000_000,
    connections: 4,
    connection_bytes: 4_096,
    fragmented: 4,
};

fuzz_target!(|bytes: &[u8]| {
    let servers = ["192.0.2.1", "127.0.0.1:5060", "2001:db8::1"];
    let servers = Servers::new(servers.map(|server| server.parse().unwrap()).to_vec());
    let buckets = vec![1_000_000, 1_000_000_000];
    let exports = Exports::default();
    let mut analysis = Analysis::new(servers, Vec::new(), buckets, BOUNDS, (1, 2), exports);
    let mut packets = 0;
    let mut before = analysis.counters();
    let _ = file::read(bytes, |packet| {
        packets += 1;
        assert_eq!(packet.moment.frame, packets);
        analysis.packet(&packet);
        let (messages, connections, waiting) = analysis.held();
        assert!(messages <= BOUNDS.messages as usize);
        assert!(connections <= BOUNDS.connections);
        assert!(waiting <= BOUNDS.connection_bytes);
        // Counters never decrease.
        let counters = analysis.counters();
        for counter in Counter::ALL {
            assert!(counters.of(*counter) >= before.of(*counter), "{counter:?}");
        }
        before = counters;
        true
    });
    analysis.finish().unwrap();
    let counters = analysis.counters();
    assert_eq!(counters.of(Counter::Packets), packets);
    let samples: u64 = analysis.figures().times().map(|(_, _, times)| times.count()).sum();
    assert!(samples <= counters.of(Counter::Messages));
});
