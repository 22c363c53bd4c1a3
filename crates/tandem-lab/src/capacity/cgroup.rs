//! CPU limits by control groups of the kernel (`cpu.max` in version 2, `cpu.cfs_quota_us` in version 1).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

/// Period of the quota: the kernel's default.
const PERIOD: Duration = Duration::from_millis(100);
/// The smallest quota that the kernel accepts.
const LEAST: Duration = Duration::from_millis(1);
/// The file that lists the processes of a group, and accepts new ones.
const PROCESSES: &str = "cgroup.procs";
/// The file of a version 2 group that lists the controllers of its child groups.
const CONTROL: &str = "cgroup.subtree_control";
/// Prefix of a group's name; the number of the process that made it follows.
const PREFIX: &str = "tandem-lab-";

/// Processor time per time: thousandths of a processor, as in Kubernetes (`30m`), or processors (`0.5`, `2`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLimit {
    processors: f64,
}

impl CpuLimit {
    fn quota(self) -> Duration {
        PERIOD.mul_f64(self.processors).max(LEAST)
    }
}

impl FromStr for CpuLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let processors = match text.strip_suffix('m') {
            Some(thousandths) => thousandths.parse().map(|number: f64| number / 1e3),
            None => text.parse(),
        };
        match processors {
            Ok(processors) if (0.01..=1_024.0).contains(&processors) => Ok(Self { processors }),
            Ok(_) => Err("must be from 10m (the kernel's minimum) to 1024 processors".into()),
            Err(_) => Err(format!(
                "`{text}` is not a CPU limit: use 30m for 30 thousandths of a processor, 2 for two processors"
            )),
        }
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}m", self.processors * 1e3)
    }
}

/// A group of processes under a limit. Dropping it releases the processes that are still in it.
#[derive(Debug)]
pub(super) struct Group {
    place: Hierarchy,
    folder: PathBuf,
    /// Processes that were already running, and their original groups.
    guests: Vec<(u32, PathBuf)>,
    /// Whether this group enabled the cpu controller of version 2, which is then disabled again.
    enabled: bool,
}

impl Group {
    /// Creates a group.
    ///
    /// # Errors
    /// No control group file system with the cpu controller is mounted, or it is not writable.
    pub(super) fn new(limit: CpuLimit) -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let place = Hierarchy::find(&mounts).ok_or_else(|| {
            io::Error::other("--cpu needs control groups, but no mounted hierarchy has the cpu controller (see `mount -t cgroup,cgroup2`)")
        })?;
        place.clear();
        let at = place.root().display().to_string();
        place.make(limit).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("--cpu: cannot create a control group in {at}: {error}; run as root, and in a container make sure that {at} is writable and has the cpu controller"),
            )
        })
    }

    /// The file to which a process writes its number to join the group.
    pub(super) fn entrance(&self) -> PathBuf {
        self.folder.join(PROCESSES)
    }

    /// Moves a running process into the group. It returns to its original group at the end.
    ///
    /// # Errors
    /// The kernel rejects it.
    pub(super) fn take(&mut self, process: u32) -> io::Result<()> {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let home = self.place.group_in(&groups);
        fs::write(self.entrance(), process.to_string())?;
        self.guests.extend(home.map(|home| (process, home)));
        Ok(())
    }

    /// How often the group was throttled, and for how long in total.
    ///
    /// # Errors
    /// The group has lost its limit, for example because another program disabled the cpu controller.
    pub(super) fn throttled(&self) -> io::Result<Throttled> {
        let stat = self.folder.join("cpu.stat");
        let text = fs::read_to_string(&stat)?;
        Throttled::read(&text).ok_or_else(|| {
            io::Error::other(format!(
                "the CPU limit is gone: {} has no throttling counters",
                stat.display()
            ))
        })
    }

    /// The processes of the group. A threaded group lists only threads: then these are thread numbers, which the kernel accepts as well.
    pub(super) fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.entrance())
            .or_else(|_| fs::read_to_string(self.folder.join("cgroup.threads")))
            .unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Releases all processes and removes the group. Returns whether it is gone.
    fn dissolve(&self) -> bool {
        for (process, home) in &self.guests {
            // The process may have exited, and its group may be gone.
            let _ = fs::write(home.join(PROCESSES), process.to_string());
        }
        // An exiting process leaves its group a moment later, and a starting one may still join.
        for _ in 0..50 {
            for process in self.processes() {
                let _ = fs::write(self.place.root().join(PROCESSES), process.to_string());
            }
            match fs::remove_dir(&self.folder) {
                Ok(()) => return true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.dissolve() {
            let folder = self.folder.display();
            eprintln!("tandem: cannot remove {folder}: the processes in it are still limited");
        }
        if self.enabled {
            self.place.disable();
        }
    }
}

/// Throttling of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) time: Duration,
}

impl Throttled {
    /// From `cpu.stat`; `None` if it has no throttling counters.
    fn read(stat: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let nanoseconds = value("throttled_time").map(Duration::from_nanos);
        let microseconds = value("throttled_usec").map(Duration::from_micros);
        let time = nanoseconds.or(microseconds)?;
        Some(Self { time })
    }
}

/// Where groups are created.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hierarchy {
    First(PathBuf),
    Second(PathBuf),
}

impl Hierarchy {
    /// Finds it among the mounts (proc(5), `/proc/pid/mountinfo`).
    fn find(mounts: &str) -> Option<Self> {
        let mounts = mounts.lines().filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let at = before.split(' ').nth(4)?;
            let mut after = after.split(' ');
            let (kind, options) = (after.next()?, after.nth(1)?);
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    Some(Self::First(at.into()))
                }
                "cgroup2" => Some(Self::Second(at.into())),
                _ => None,
            }
        });
        // If both versions are mounted, the first one with the controller has it.
        let mut mounts: Vec<_> = mounts.collect();
        mounts.sort_by_key(|mount| matches!(mount, Self::Second(_)));
        mounts.into_iter().next()
    }

    fn root(&self) -> &Path {
        match self {
            Self::First(root) | Self::Second(root) => root,
        }
    }

    /// Removes groups of interrupted searches. A group with processes stays.
    fn clear(&self) {
        let groups = fs::read_dir(self.root()).into_iter().flatten().flatten();
        for group in groups {
            let name = group.file_name();
            let Some(maker) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            let is_own = maker == std::process::id().to_string();
            if is_own || !Path::new("/proc").join(maker).exists() {
                let _ = fs::remove_dir(group.path());
            }
        }
    }

    /// Disables the cpu controller for child groups, unless other groups exist that may use it.
    fn disable(&self) {
        let groups = fs::read_dir(self.root()).into_iter().flatten().flatten();
        let has_groups = groups
            .into_iter()
            .any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        if !has_groups {
            let _ = fs::write(self.root().join(CONTROL), "-cpu");
        }
    }

    /// The group of a process (cgroups(7), `/proc/pid/cgroup`).
    fn group_in(&self, groups: &str) -> Option<PathBuf> {
        let path = groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match self {
                Self::First(_) => controllers.split(',').any(|controller| controller == "cpu"),
                Self::Second(_) => number == "0",
            };
            is_it.then_some(path)
        })?;
        // A container cannot name groups outside it, and nothing returns to the group of an interrupted search.
        let path = path.strip_prefix('/')?;
        let is_home = !path.starts_with("..") && !path.starts_with(PREFIX);
        is_home.then(|| self.root().join(path))
    }

    fn make(&self, limit: CpuLimit) -> io::Result<Group> {
        let name = format!("{PREFIX}{}", std::process::id());
        let folder = self.root().join(name);
        fs::create_dir(&folder)?;
        let mut group = Group {
            place: self.clone(),
            folder,
            guests: Vec::new(),
            enabled: false,
        };
        let (quota, period) = (limit.quota().as_micros(), PERIOD.as_micros());
        match self {
            Self::First(_) => {
                fs::write(group.folder.join("cpu.cfs_period_us"), period.to_string())?;
                fs::write(group.folder.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Self::Second(root) => {
                let control = root.join(CONTROL);
                let controllers = fs::read_to_string(&control)?;
                if !controllers.split_whitespace().any(|name| name == "cpu") {
                    fs::write(&control, "+cpu")?;
                    group.enabled = true;
                }
                // In a container the parent group has processes of its own. Then only threaded child groups can limit the processor.
                let kind = group.folder.join("cgroup.type");
                if fs::read_to_string(&kind)?.trim() == "domain invalid" {
                    fs::write(&kind, "threaded")?;
                }
                fs::write(group.folder.join("cpu.max"), format!("{quota} {period}"))?;
            }
        }
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_kubernetes_writes_them() {
        let parse = |text: &str| text.parse().map(|limit: CpuLimit| limit.to_string());
        for (text, same) in [("30m", "30m"), ("0.5", "500m"), ("2", "2000m")] {
            assert_eq!(parse(text).as_deref(), Ok(same), "{text}");
        }
        for text in ["", "m", "5m", "-1", "30 m", "inf", "NaN", "9999"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            "30m".parse::<CpuLimit>().unwrap().quota(),
            Duration::from_millis(3)
        );
    }

    #[test]
    fn the_controller_is_found_in_either_version() {
        let first = "35 24 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:16 - cgroup cgroup rw,cpu,cpuacct";
        let sets = "36 24 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset";
        let second = "37 24 0:32 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let find = |lines: &[&str]| Hierarchy::find(&lines.join("\n"));
        let in_first = Hierarchy::First("/sys/fs/cgroup/cpu,cpuacct".into());
        assert_eq!(find(&[sets, first]), Some(in_first.clone()));
        assert_eq!(find(&[second, first]), Some(in_first));
        assert_eq!(
            find(&[sets, second]),
            Some(Hierarchy::Second("/sys/fs/cgroup".into()))
        );
        assert_eq!(find(&[sets, "nonsense"]), None);
    }

    #[test]
    fn the_group_of_a_process_is_found_in_either_version() {
        let first = Hierarchy::First("/sys/fs/cgroup/cpu".into());
        let second = Hierarchy::Second("/sys/fs/cgroup".into());
        let both = "5:cpuset:/\n4:cpu,cpuacct:/system.slice/proxy.service\n0::/user.slice\n";
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            first.group_in(both),
            at("/sys/fs/cgroup/cpu/system.slice/proxy.service")
        );
        assert_eq!(second.group_in(both), at("/sys/fs/cgroup/user.slice"));
        assert_eq!(second.group_in("0::/"), at("/sys/fs/cgroup/"));
        for none in [
            "0::/../other",
            "0::/tandem-lab-7",
            "",
            "nonsense",
            "4:cpu:/x",
        ] {
            assert_eq!(second.group_in(none), None, "{none}");
        }
    }

    #[test]
    fn throttling_is_read_in_either_version() {
        let first = "nr_periods 5\nnr_throttled 3\nthrottled_time 1500000\n";
        let second = "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1500\n";
        for stat in [first, second] {
            let time = Duration::from_micros(1_500);
            assert_eq!(Throttled::read(stat), Some(Throttled { time }));
        }
        assert_eq!(Throttled::read("usage_usec 9\n"), None);
    }

    #[test]
    fn what_cannot_be_made_leaves_nothing_behind_and_takes_nothing_from_others() {
        let limit = "30m".parse().unwrap();
        let root = tempfile::tempdir().unwrap();
        let place = Hierarchy::Second(root.path().into());
        let began = std::time::Instant::now();
        // No file lists the controllers.
        assert!(place.make(limit).is_err());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        // Another search, with the same process number in a container of its own, came first.
        let other = root.path().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&other).unwrap();
        assert!(place.make(limit).is_err());
        assert!(other.is_dir());
        let missing = Hierarchy::First(root.path().join("missing"));
        assert!(missing.make(limit).is_err());
        assert!(began.elapsed() < Duration::from_millis(500));
    }

    #[test]
    fn the_controller_is_taken_away_only_where_no_other_group_is() {
        let root = tempfile::tempdir().unwrap();
        let place = Hierarchy::Second(root.path().into());
        let control = root.path().join(CONTROL);
        fs::write(&control, "cpu").unwrap();
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        place.disable();
        assert_eq!(fs::read_to_string(&control).unwrap(), "cpu");
        fs::remove_dir(&other).unwrap();
        place.disable();
        assert_eq!(fs::read_to_string(&control).unwrap(), "-cpu");
    }
}
