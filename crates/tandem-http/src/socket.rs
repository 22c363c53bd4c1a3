//! A Unix socket that only its owner can connect to.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use tokio::net::UnixListener;

/// Connections that may wait to be accepted.
const WAITING: i32 = 64;

/// Binds a socket file of mode 0600. It replaces a socket file that a dead process left behind, but no socket that a process listens on,
/// and no other file. Call it on a tokio runtime.
///
/// # Errors
/// The path is in use or cannot be bound.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Clients can connect only after `listen`, so there is no moment with other permissions.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, WAITING)?;
    UnixListener::from_std(socket.into())
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let taken = |what: &str| io::Error::new(io::ErrorKind::AddrInUse, what.to_owned());
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(taken("the file exists and is not a socket"))
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(taken("another process listens on it")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)
            }
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_owner_may_connect_and_nothing_that_is_in_use_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let listener = bind_unix(&path).expect("bound");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = bind_unix(&path).expect_err("in use");
        assert!(error.to_string().contains("another process"), "{error}");
        drop(listener);
        bind_unix(&path).expect("what was left behind is replaced");
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").expect("written");
        assert!(bind_unix(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "kept");
    }
}
