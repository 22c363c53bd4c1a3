//! The file of records. It contains whole lines only, whatever happens to the disk, the process or the name of the file.
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Records contain who called whom, so only the owner and the group may read them.
const MODE: u32 = 0o640;
/// How far from the end of an existing file its last line begins at most, in bytes. The longest record is shorter.
const LONGEST_LINE: u64 = 64 << 10;

/// A file that grows by whole lines.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    is_regular: bool,
    /// The end of the file is not the end of a line, and could not be cut off.
    torn: bool,
}

impl RecordFile {
    /// A file that is opened with the first use.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines, or none of them. If the file was renamed or deleted since the last call, it is created again.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.was_replaced() {
            self.sync()?;
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(Open::new(&self.path)?),
        };
        open.append(lines)
    }

    /// Waits until the disk has all lines.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &self.open {
            Some(open) if open.is_regular => open.file.sync_data(),
            _ => Ok(()),
        }
    }

    /// Closes the file and opens it by its name.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.sync()?;
        self.open = None;
        self.open = Some(Open::new(&self.path)?);
        Ok(())
    }

    /// Whether the name no longer leads to the open file.
    fn was_replaced(&self) -> bool {
        let Some(open) = &self.open else { return false };
        std::fs::metadata(&self.path).map_or(true, |found| identity(&found) != open.identity)
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        let refused =
            |problem: &str| io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
        // Opening a pipe could wait for its reader.
        if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            return Err(refused("a pipe cannot be used: name a file"));
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(MODE);
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        let is_regular = metadata.is_file();
        if let (true, Err(TryLockError::WouldBlock)) = (is_regular, file.try_lock()) {
            return Err(refused(
                "another process writes it: give each server a file of its own",
            ));
        }
        let mut open = Self {
            file,
            identity: identity(&metadata),
            is_regular,
            torn: false,
        };
        if is_regular {
            open.remove_cut_line(metadata.len())?;
        }
        Ok(open)
    }

    /// Removes the beginning of a record at the end of the file: the machine stopped before the rest was written. A last line that is no
    /// record stays.
    fn remove_cut_line(&mut self, length: u64) -> io::Result<()> {
        let start = length.saturating_sub(LONGEST_LINE);
        self.file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        (&self.file).take(LONGEST_LINE).read_to_end(&mut tail)?;
        let line_feed = tail.iter().rposition(|byte| *byte == b'\n');
        let last_line = line_feed.map_or(0, |place| place + 1);
        match tail.get(last_line..).unwrap_or_default() {
            [] => {}
            [b'{', ..] if last_line > 0 || start == 0 => {
                self.file.set_len(start + last_line as u64)?;
            }
            _ => self.torn = true,
        }
        Ok(())
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let written = if self.torn {
            self.file
                .write_all(b"\n")
                .and_then(|()| self.file.write_all(lines))
        } else {
            self.file.write_all(lines)
        };
        match written {
            Ok(()) => self.torn = false,
            // What was written before the failure is cut off. If that is impossible, the next line does not continue it.
            Err(_) => self.torn |= self.file.set_len(length).is_err(),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, read_to_string};

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("calls.jsonl");
        (directory, path)
    }

    #[test]
    fn lines_are_appended_to_what_is_there() {
        let (_directory, path) = place();
        for line in ["{1}\n", "{2}\n"] {
            let mut file = RecordFile::new(path.clone());
            file.append(line.as_bytes()).expect("written");
            file.sync().expect("synced");
        }
        assert_eq!(read_to_string(&path).expect("a file"), "{1}\n{2}\n");
        let mode = fs::metadata(&path).expect("a file").mode();
        assert_eq!(mode & 0o137, 0, "others may not read it: {mode:o}");
    }

    #[test]
    fn a_renamed_or_deleted_file_is_created_again() {
        let (directory, path) = place();
        let rotated = directory.path().join("calls.jsonl.1");
        let mut file = RecordFile::new(path.clone());
        file.append(b"{1}\n").expect("written");
        fs::rename(&path, &rotated).expect("renamed");
        file.append(b"{2}\n").expect("written");
        assert_eq!(read_to_string(&rotated).expect("a file"), "{1}\n");
        assert_eq!(read_to_string(&path).expect("a file"), "{2}\n");
        fs::remove_file(&path).expect("deleted");
        file.append(b"{3}\n").expect("written");
        assert_eq!(read_to_string(&path).expect("a file"), "{3}\n");
        fs::rename(&path, &rotated).expect("renamed");
        file.reopen().expect("opened");
        assert_eq!(read_to_string(&path).expect("a file"), "");
    }

    #[test]
    fn a_truncated_file_goes_on_at_its_new_end() {
        let (_directory, path) = place();
        let mut file = RecordFile::new(path.clone());
        file.append(b"{1}\n").expect("written");
        File::create(&path).expect("truncated, as copytruncate of logrotate does");
        file.append(b"{2}\n").expect("written");
        assert_eq!(read_to_string(&path).expect("a file"), "{2}\n");
    }

    #[test]
    fn the_beginning_of_a_record_at_the_end_is_removed_and_other_text_is_kept() {
        for (before, after) in [
            ("{1}\n{\"cut", "{1}\n{2}\n"),
            ("{\"cut", "{2}\n"),
            ("{1}\nnot ours", "{1}\nnot ours\n{2}\n"),
        ] {
            let (_directory, path) = place();
            fs::write(&path, before).expect("written");
            let mut file = RecordFile::new(path.clone());
            file.append(b"{2}\n").expect("written");
            assert_eq!(read_to_string(&path).expect("a file"), after);
        }
        let (_directory, path) = place();
        let long = "{".repeat(100_000);
        fs::write(&path, &long).expect("written");
        let mut file = RecordFile::new(path.clone());
        file.append(b"{2}\n").expect("written");
        assert_eq!(read_to_string(&path).expect("a file"), long + "\n{2}\n");
    }

    #[test]
    fn writing_resumes_once_the_directory_exists() {
        let (directory, _) = place();
        let path = directory.path().join("later/calls.jsonl");
        let mut file = RecordFile::new(path.clone());
        let problem = file.append(b"{1}\n").expect_err("no directory");
        assert_eq!(problem.kind(), io::ErrorKind::NotFound);
        fs::create_dir(directory.path().join("later")).expect("created");
        file.append(b"{1}\n").expect("written");
        assert_eq!(read_to_string(&path).expect("a file"), "{1}\n");
    }

    #[test]
    fn two_servers_do_not_write_one_file() {
        let (_directory, path) = place();
        let mut first = RecordFile::new(path.clone());
        first.append(b"{1}\n").expect("written");
        let mut second = RecordFile::new(path.clone());
        let problem = second.append(b"{2}\n").expect_err("locked").to_string();
        assert!(problem.contains("another process"), "{problem}");
        drop(first);
        second.append(b"{2}\n").expect("written");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut file = RecordFile::new("/dev/full".into());
        let problem = file.append(b"{1}\n").expect_err("full");
        assert_eq!(problem.kind(), io::ErrorKind::StorageFull);
    }
}
