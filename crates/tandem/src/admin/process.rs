//! Memory and CPU time of the process, as reported by the kernel.
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Resident memory in bytes; 0 if the kernel does not report it.
pub(super) fn resident_memory() -> u64 {
    let status = Process::myself().and_then(|process| process.status());
    let kibibytes = status.ok().and_then(|status| status.vmrss);
    kibibytes.unwrap_or_default() * 1024
}

/// CPU time of all threads so far, in seconds. Its resolution is finer than that of the clock ticks in `/proc`.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_reports_memory_and_cpu_time() {
        assert!(super::resident_memory() > 1 << 20);
        assert!(super::cpu_seconds() > 0.0);
    }
}
