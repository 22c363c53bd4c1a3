//! What this machine must have so that a configuration can run: directories, files, addresses and processors.
use crate::config::{self, Configuration, Loaded, Mistake, Place, TlsClients};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use tandem_http::Token;

/// Everything that would keep the server from starting or from writing call records, in the order of the file; and warnings.
pub fn errors(loaded: &Loaded) -> (Vec<Mistake>, Vec<String>) {
    let mut found = Found {
        loaded,
        mistakes: Vec::new(),
        warnings: Vec::new(),
    };
    found.directories();
    found.addresses();
    found.token();
    found.routing();
    if config::speaks_tls(&loaded.configuration) {
        found.certificates();
    }
    found
        .mistakes
        .sort_by(|one, other| one.place.cmp(&other.place));
    (found.mistakes, found.warnings)
}

/// A warning if workers cannot be pinned as configured: the server then runs them unpinned.
pub fn missing_processors(configuration: &Configuration) -> Option<String> {
    let available = sched_getaffinity(None).ok()?;
    let exists = |cpu: &u16| usize::from(*cpu) < CpuSet::MAX_CPU && available.is_set((*cpu).into());
    let missing: Vec<String> = configuration
        .workers
        .pin
        .iter()
        .filter(|cpu| !exists(cpu))
        .map(u16::to_string)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "`workers.pin`: this machine has no CPU {}, or this process may not use it: workers are not pinned to it",
            missing.join(", ")
        )
    })
}

pub(super) struct Found<'l> {
    pub(super) loaded: &'l Loaded,
    mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<String>,
}

impl Found<'_> {
    /// Adds an error about the value of a key.
    pub(super) fn add(&mut self, path: &str, value: &dyn std::fmt::Display, problem: &str) {
        self.mistakes.push(Mistake {
            place: self.loaded.places.of(path),
            message: if self.loaded.places.is_secret(path) {
                format!("`{path}`: {problem}")
            } else {
                format!("`{path} = \"{value}\"`: {problem}")
            },
        });
    }

    /// Adds an error at a key or a section.
    pub(super) fn add_line(&mut self, path: &str, message: String) {
        let place = self.loaded.places.of(path);
        self.mistakes.push(Mistake { place, message });
    }

    fn directories(&mut self) {
        let Configuration {
            database,
            admin,
            records,
            ..
        } = &self.loaded.configuration;
        if let Some(file) = database.url.file() {
            self.directory("database.url", &database.url.0, file);
        }
        if let Some(socket) = &admin.socket {
            self.directory("admin.socket", &socket.0.display(), &socket.0);
        }
        if let Some(file) = &records.file {
            self.directory("records.file", &file.0.display(), &file.0);
        }
    }

    /// A file that the server creates needs its directory.
    fn directory(&mut self, path: &str, value: &dyn std::fmt::Display, file: &Path) {
        let parent = file
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = parent.filter(|directory| !directory.is_dir()) {
            let problem = format!("no such directory: {}; create it", directory.display());
            self.add(path, value, &problem);
        }
    }

    fn addresses(&mut self) {
        let Configuration { listen, admin, .. } = &self.loaded.configuration;
        for (index, listen) in listen.iter().enumerate() {
            let path = format!("listen[{index}].address");
            if let Some(problem) = unusable(listen.address.ip()) {
                self.add(&path, &listen.address, &problem);
            }
        }
        if let Some(problem) = unusable(admin.listen.ip()) {
            self.add("admin.listen", &admin.listen, &problem);
        }
        if let Err(problem) = config::listeners(&self.loaded.configuration) {
            self.mistakes.push(Mistake {
                place: Place::File,
                message: problem,
            });
        }
    }

    fn token(&mut self) {
        if let Some(file) = &self.loaded.configuration.admin.token_file
            && let Err(error) = Token::read(&file.0)
        {
            self.add("admin.token_file", &file.0.display(), &error.to_string());
        }
    }

    /// Every file that TLS needs: first those that cannot be read, then what is wrong in the others.
    fn certificates(&mut self) {
        let files = tls_files(&self.loaded.configuration);
        let mut unreadable: Vec<&Path> = Vec::new();
        for (path, file) in &files {
            if let Err(error) = std::fs::File::open(file) {
                self.add(path, &file.display(), &format!("cannot be read: {error}"));
                unreadable.push(file);
            }
        }
        let loaded = config::tls_settings(&self.loaded.configuration).load(None);
        for error in loaded.err().into_iter().flat_map(|errors| errors.0) {
            if unreadable.contains(&error.file.as_path()) {
                continue;
            }
            let named = files.iter().find(|(_, file)| **file == error.file);
            match named {
                Some((path, file)) => self.add(path, &file.display(), &error.problem),
                None => self.mistakes.push(Mistake {
                    place: Place::File,
                    message: error.to_string(),
                }),
            }
        }
    }
}

/// Why this machine cannot listen on an address, whatever the port.
fn unusable(address: IpAddr) -> Option<String> {
    let error = UdpSocket::bind((address, 0)).err()?;
    Some(match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            "this machine does not have this address: `ip address` lists the addresses that it has"
                .to_owned()
        }
        _ => format!("cannot listen on this address: {error}"),
    })
}

/// The files that TLS needs, by the key that names them.
fn tls_files(configuration: &Configuration) -> Vec<(String, &Path)> {
    let mut files: Vec<(String, &Path)> = Vec::new();
    for (index, certificate) in configuration.certificate.iter().enumerate() {
        files.push((format!("certificate[{index}].chain"), &certificate.chain.0));
        files.push((format!("certificate[{index}].key"), &certificate.key.0));
    }
    if let TlsClients::Optional(clients) | TlsClients::Required(clients) =
        &configuration.tls.clients
    {
        files.push(("tls.client_ca".to_owned(), &clients.client_ca.0));
    }
    if let Some(file) = &configuration.tls.server_ca {
        files.push(("tls.server_ca".to_owned(), &file.0));
    }
    files
}
