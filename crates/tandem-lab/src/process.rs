//! The cost of the server under test: CPU time and memory of its processes, from /proc.

use anyhow::Context;
use procfs::process::{LimitValue, Process, all_processes};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The processes of a server: the named one and all its descendants.
#[derive(Debug)]
pub struct Processes(Vec<Process>);

impl Processes {
    /// Finds `root` and its descendants.
    ///
    /// # Errors
    /// The process does not exist.
    pub fn family(root: u32) -> anyhow::Result<Self> {
        let unknown = || format!("no process has the id {root}");
        let first = Process::new(root.cast_signed()).with_context(unknown)?;
        // Those that end meanwhile do not count.
        let all = all_processes()?.filter_map(Result::ok);
        let mut others: Vec<(i32, Process)> = all
            .filter_map(|process| Some((process.stat().ok()?.ppid, process)))
            .collect();
        let mut family = vec![first];
        let mut reached = 0;
        while let Some(parent) = family.get(reached).map(|process| process.pid) {
            let is_child = |other: &mut (i32, Process)| other.0 == parent;
            let children = others.extract_if(.., is_child);
            family.extend(children.map(|(_, child)| child));
            reached += 1;
        }
        Ok(Self(family))
    }

    /// The ids of processes that are still running.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        // An open directory of /proc belongs to one process, not to a later one with the same id.
        let running = self.0.iter().filter(|process| process.is_alive());
        running.map(|process| process.pid.cast_unsigned())
    }

    /// CPU time of all threads since they began.
    ///
    /// # Errors
    /// A process has ended.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let mut nanoseconds = 0;
        for process in &self.0 {
            // A thread may have ended.
            let threads = process.tasks()?.filter_map(Result::ok);
            let used = threads.filter_map(|thread| thread.schedstat().ok());
            nanoseconds += used.map(|used| used.sum_exec_runtime).sum::<u64>();
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Proportional set size in bytes, and the sum of the processes' peaks (resident set size).
    ///
    /// # Errors
    /// A process has ended.
    pub fn memory(&self) -> anyhow::Result<(u64, u64)> {
        let (mut now, mut peak) = (0, 0);
        for process in &self.0 {
            let maps = process.smaps_rollup()?.memory_map_rollup;
            let of_maps = |name| {
                maps.0
                    .iter()
                    .filter_map(move |map| map.extension.map.get(name))
            };
            now += of_maps("Pss").sum::<u64>();
            // In KiB.
            peak += process.status()?.vmhwm.unwrap_or(0) * 1024;
        }
        Ok((now, peak))
    }

    /// Waits for background work of the server, such as saving registrations, so that it does not count towards the next measurement.
    /// Gives up on a server that is never idle.
    pub fn wait_until_idle(&self) -> anyhow::Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        const AT_MOST: u32 = 40;
        for _ in 0..AT_MOST {
            let before = self.cpu_time()?;
            std::thread::sleep(LOOK_EVERY);
            if self.cpu_time()?.saturating_sub(before) < LOOK_EVERY / 50 {
                break;
            }
        }
        Ok(())
    }

    /// Limit of open descriptors of the first process (`RLIMIT_NOFILE`).
    ///
    /// # Errors
    /// The process has ended.
    pub fn descriptor_limit(&self) -> anyhow::Result<u64> {
        let Some(first) = self.0.first() else {
            return Ok(u64::MAX);
        };
        Ok(match first.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => limit,
            LimitValue::Unlimited => u64::MAX,
        })
    }
}

/// CPU time of this process.
pub(crate) fn own_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_secs(time.tv_sec.cast_unsigned())
        + Duration::from_nanos(time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_this_process_grows_with_work() {
        let own = Processes::family(std::process::id()).expect("own process");
        let before = own.cpu_time().expect("schedstat");
        let mut sum = 0_u64;
        while own.cpu_time().expect("schedstat") < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(own.memory().expect("memory").0 > 0);
    }
}
