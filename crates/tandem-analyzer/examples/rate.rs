//! Measures how many packets per second one core processes from a capture file: `rate FILE SERVER [TIMES]`. The file is read into memory
//! first, and only CPU time counts, so that disks and other processes do not affect the figure.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use rustix::time::{ClockId, clock_gettime};
use tandem_analyzer::capture::file;
use tandem_analyzer::{Analysis, Bounds, Counter, Exports, Servers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, server, times @ ..] = &arguments[..] else {
        return Err("rate FILE SERVER [TIMES]".into());
    };
    let times = times.first().map_or(Ok(5), |times| times.parse())?;
    let bytes = std::fs::read(path)?;
    for _ in 0..times {
        let bounds = Bounds {
            messages: 1_000_000,
            lifetime: 32_000_000_000,
            connections: 100_000,
            connection_bytes: 64 << 20,
            fragmented: 1_024,
        };
        let servers = Servers::new(vec![server.parse()?]);
        let (ports, buckets) = (Vec::new(), vec![1_000_000, 10_000_000, 100_000_000]);
        let exports = Exports::default();
        let mut analysis = Analysis::new(servers, ports, buckets, bounds, (1, 2), exports);
        let began = cpu_seconds();
        file::read(&bytes[..], |packet| {
            analysis.packet(&packet);
            true
        })?;
        let seconds = cpu_seconds() - began;
        let counters = analysis.counters();
        let count = |counter| counters.of(counter);
        let samples: u64 = analysis
            .figures()
            .times()
            .map(|(_, _, times)| times.count())
            .sum();
        let rate = count(Counter::Packets) as f64 / seconds;
        println!(
            "{} packets, {} messages, {samples} response times in {seconds:.3} s of CPU: {rate:.0} packets/s",
            count(Counter::Packets),
            count(Counter::Messages)
        );
    }
    Ok(())
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
