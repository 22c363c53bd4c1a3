//! The secret that the edges and nodes of a fleet share.
use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};
use sip_message::KeyHasher;
use std::path::Path;

/// The shortest secret, in bytes.
const SHORTEST: usize = 32;

/// Reads the secret of the fleet from a file. Line ends at the end do not count.
///
/// # Errors
/// The file cannot be read, or is too short.
pub(crate) fn read(file: &Path) -> anyhow::Result<KeyHasher> {
    let bytes = std::fs::read(file)
        .with_context(|| format!("`fleet.secret_file`: cannot read {}", file.display()))?;
    let secret = bytes.trim_ascii_end();
    if secret.len() < SHORTEST {
        bail!(
            "`fleet.secret_file`: {} has {} bytes, but a secret needs {SHORTEST} or more: create one with `openssl rand -hex 32`",
            file.display(),
            secret.len()
        );
    }
    Ok(hasher(secret))
}

/// Draws a secret that nobody else has.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn draw() -> anyhow::Result<KeyHasher> {
    let mut secret = [0; SHORTEST];
    getrandom::fill(&mut secret)
        .map_err(|error| anyhow::anyhow!("cannot get random numbers from the system: {error}"))?;
    Ok(hasher(&secret))
}

fn hasher(secret: &[u8]) -> KeyHasher {
    let mut digest = Sha256::new();
    digest.update(b"tandem fleet\n");
    digest.update(secret);
    let digest = digest.finalize();
    let half = |at: usize| {
        let octets = digest.iter().skip(at).take(8);
        octets.fold(0, |value, octet| value << 8 | u64::from(*octet))
    };
    KeyHasher::new((half(0), half(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> anyhow::Result<u64> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        read(file.path()).map(|hasher| hasher.hash(&[b"x"]))
    }

    #[test]
    fn equal_files_are_equal_secrets_with_or_without_a_line_end() {
        let text = "0123456789abcdef0123456789abcdef";
        let hash = read_text(text).expect("a secret");
        assert_eq!(read_text(&format!("{text}\n")).expect("a secret"), hash);
        let other = text.replace('f', "e");
        assert_ne!(read_text(&other).expect("a secret"), hash);
    }

    #[test]
    fn a_short_secret_is_refused_with_a_way_to_make_one() {
        let error = read_text("short\n").expect_err("too short").to_string();
        assert!(
            error.contains("has 5 bytes") && error.contains("openssl rand"),
            "{error}"
        );
    }
}
