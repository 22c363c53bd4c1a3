//! A limit on CPU: a control group of the kernel (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

/// How long a group runs before its quota is given anew: the kernel's own default.
const PERIOD: Duration = Duration::from_millis(100);
/// The kernel takes no smaller quota.
const LEAST: Duration = Duration::from_millis(1);
/// The file of a group that tells and takes the numbers of its processes.
const PROCESSES: &str = "cgroup.procs";
/// Of a group's name, before the number of the process that made it.
const PREFIX: &str = "tandem-lab-";

/// Processor time per time: thousandths of a processor, as Kubernetes writes it (`30m`), or processors (`0.5`, `2`).
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
            Ok(_) => Err("from 10m (the kernel grants no less) to 1024 processors".into()),
            Err(_) => Err(format!(
                "`{text}` is no limit: 30m for thirty thousandths of a processor, 2 for two processors"
            )),
        }
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}m", self.processors * 1e3)
    }
}

/// A group of processes under a limit. Dropping it lets out what is left in it.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    /// The group where those go that are let out.
    outside: PathBuf,
    /// The file that was told to give groups the controller, where it had not been before.
    told: Option<PathBuf>,
}

impl Group {
    /// Makes one. `guest`: the process that will be moved into it and back, where there is one.
    ///
    /// # Errors
    /// No control group file system is mounted with the cpu controller, or it may not be written.
    pub(super) fn new(limit: CpuLimit, guest: Option<u32>) -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let place = Hierarchy::find(&mounts).ok_or_else(|| {
            io::Error::other("--cpu needs control groups, and none is mounted with the cpu controller (see `mount -t cgroup,cgroup2`)")
        })?;
        place.clear();
        let name = format!("{PREFIX}{}", std::process::id());
        let mut group = place.make(&name, limit).map_err(|error| {
            let at = place.root().display();
            io::Error::new(
                error.kind(),
                format!("--cpu: cannot make a control group in {at}: {error}; root may, and in a container only with a writable {at}"),
            )
        })?;
        let home = guest.and_then(|process| {
            let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
            place.group_in(&groups)
        });
        if let Some(home) = home.filter(|home| home.is_dir()) {
            group.outside = home;
        }
        Ok(group)
    }

    /// The file that takes the number of a process that shall belong to it.
    pub(super) fn entrance(&self) -> PathBuf {
        self.folder.join(PROCESSES)
    }

    /// How often it was held back, and for how long in all.
    pub(super) fn throttled(&self) -> Throttled {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        Throttled::read(&stat)
    }

    /// The numbers of those that belong to it; of a threaded group, which tells nothing else, those of their threads: the kernel takes either.
    pub(super) fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.entrance())
            .or_else(|_| fs::read_to_string(self.folder.join("cgroup.threads")))
            .unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for process in self.processes() {
            // It may have ended by itself.
            let _ = fs::write(self.outside.join(PROCESSES), process.to_string());
        }
        // What has just ended leaves its group a moment later.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        if let Some(told) = &self.told {
            let _ = fs::write(told, "-cpu");
        }
    }
}

/// How a limit held a group back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) time: Duration,
}

impl Throttled {
    fn read(stat: &str) -> Self {
        let value = |name: &str| {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let nanoseconds = value("throttled_time").map(Duration::from_nanos);
        let microseconds = value("throttled_usec").map(Duration::from_micros);
        Self {
            time: nanoseconds.or(microseconds).unwrap_or_default(),
        }
    }
}

/// Where groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hierarchy {
    First(PathBuf),
    Second(PathBuf),
}

impl Hierarchy {
    /// From what is mounted (proc(5), `/proc/pid/mountinfo`).
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
        // Where both are mounted the controller belongs to the first that has it.
        let mut mounts: Vec<_> = mounts.collect();
        mounts.sort_by_key(|mount| matches!(mount, Self::Second(_)));
        mounts.into_iter().next()
    }

    fn root(&self) -> &Path {
        match self {
            Self::First(root) | Self::Second(root) => root,
        }
    }

    /// Removes groups of searches that were interrupted. One that still has processes stays.
    fn clear(&self) {
        let groups = fs::read_dir(self.root()).into_iter().flatten().flatten();
        for group in groups {
            let name = group.file_name();
            let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
                let _ = fs::remove_dir(group.path());
            }
        }
    }

    /// The group that a process belongs to (cgroups(7), `/proc/pid/cgroup`).
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
        // What lies outside a container is not for it to name.
        let path = path.strip_prefix('/')?;
        (!path.starts_with("..")).then(|| self.root().join(path))
    }

    fn make(&self, name: &str, limit: CpuLimit) -> io::Result<Group> {
        let mut group = Group {
            folder: self.root().join(name),
            outside: self.root().to_owned(),
            told: None,
        };
        let (quota, period) = (limit.quota().as_micros(), PERIOD.as_micros());
        match self {
            Self::First(_) => {
                fs::create_dir(&group.folder)?;
                fs::write(group.folder.join("cpu.cfs_period_us"), period.to_string())?;
                fs::write(group.folder.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Self::Second(root) => {
                let control = root.join("cgroup.subtree_control");
                let controllers = fs::read_to_string(&control)?;
                if !controllers.split_whitespace().any(|name| name == "cpu") {
                    fs::write(&control, "+cpu")?;
                    group.told = Some(control);
                }
                fs::create_dir(&group.folder)?;
                // In a container the group above has processes of its own: groups below it may limit the processor only as threaded ones.
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
        for outside in ["0::/../other", "", "nonsense", "4:cpu:/x"] {
            assert_eq!(second.group_in(outside), None, "{outside}");
        }
    }

    #[test]
    fn throttling_is_read_in_either_version() {
        let first = "nr_periods 5\nnr_throttled 3\nthrottled_time 1500000\n";
        let second = "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1500\n";
        for stat in [first, second] {
            assert_eq!(Throttled::read(stat).time, Duration::from_micros(1_500));
        }
        assert_eq!(Throttled::read("").time, Duration::ZERO);
    }
}
