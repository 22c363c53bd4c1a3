//! Memory and CPU time of the process, as reported by the kernel.

/// Resident memory in bytes; 0 if the kernel does not report it.
pub fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    kibibytes.unwrap_or_default() * 1024
}

/// CPU time of all threads so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
    .as_secs_f64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_tells_memory_and_processor_time() {
        assert!(super::resident_memory() > 1 << 20);
        assert!(super::cpu_seconds() > 0.0);
    }
}
