//! The cost of the server under test: CPU time and memory of its processes, from /proc.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;
use std::time::Duration;

/// The processes of a server: the named one and all its descendants.
#[derive(Clone, Debug)]
pub struct Processes(Vec<Process>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    number: u32,
    parent: u32,
    /// Start time in ticks. Distinguishes the process from later ones with the same number.
    begun: u64,
}

impl Processes {
    /// Finds `root` and its descendants.
    ///
    /// # Errors
    /// The process does not exist.
    pub fn family(root: u32) -> io::Result<Self> {
        let Some(first) = Process::of(root) else {
            let message = format!("no process has the id {root}");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let number = entry?.file_name().to_string_lossy().parse();
            all.extend(number.ok().and_then(Process::of));
        }
        let mut family = vec![first];
        let mut reached = 0;
        while let Some(parent) = family.get(reached).copied() {
            let children = all.iter().filter(|child| child.parent == parent.number);
            family.extend(children);
            reached += 1;
        }
        Ok(Self(family))
    }

    /// The ids of processes that are still running.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        let same = |process: &&Process| {
            let now = Process::of(process.number);
            now.is_some_and(|now| now.begun == process.begun)
        };
        self.0.iter().filter(same).map(|process| process.number)
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|process| process.number)
    }

    /// CPU time of all threads since they began.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for pid in self.numbers() {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                // The thread may have ended.
                let Ok(schedstat) = fs::read_to_string(task?.path().join("schedstat")) else {
                    continue;
                };
                let running = schedstat
                    .split_whitespace()
                    .next()
                    .and_then(|field| field.parse::<u64>().ok());
                nanoseconds += running.unwrap_or(0);
            }
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Proportional set size in bytes, and the sum of the processes' peaks (resident set size).
    pub fn memory(&self) -> io::Result<(u64, u64)> {
        let mut now = 0;
        let mut peak = 0;
        for pid in self.numbers() {
            now += kilobytes(
                &fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?,
                "Pss:",
            );
            peak += kilobytes(
                &fs::read_to_string(format!("/proc/{pid}/status"))?,
                "VmHWM:",
            );
        }
        Ok((now * 1024, peak * 1024))
    }

    /// Waits for background work of the server, such as saving registrations, so that it does not count towards the next measurement.
    /// Gives up on a server that is never idle.
    pub fn wait_until_idle(&self) -> io::Result<()> {
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
    pub fn descriptor_limit(&self) -> io::Result<u64> {
        let pid = self.numbers().next().unwrap_or_default();
        let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let soft = line.and_then(|line| line.split_whitespace().nth(3));
        Ok(soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX))
    }
}

impl Process {
    /// `None` if no such process exists.
    fn of(number: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name in parentheses may contain anything; the third field follows it.
        let (_, rest) = stat.rsplit_once(')')?;
        let field = |place: usize| rest.split_whitespace().nth(place - 3);
        Some(Self {
            number,
            parent: field(4)?.parse().ok()?,
            begun: field(22)?.parse().ok()?,
        })
    }
}

fn kilobytes(text: &str, label: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(label));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
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
