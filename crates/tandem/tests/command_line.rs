//! What the program offers to shells and to readers of manual pages.
mod common;

use common::{tandem, text};
use std::path::Path;
use std::process::Command;

#[test]
fn bash_completes_commands_with_the_printed_script() {
    let folder = tempfile::tempdir().expect("a directory");
    let script = folder.path().join("tandem.bash");
    let printed = tandem(&["completions", "bash"]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    std::fs::write(&script, printed.stdout).expect("written");
    let complete = "source \"$0\"\n\
        COMP_WORDS=(tandem user pas)\nCOMP_CWORD=2\n_tandem tandem pas user\necho \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash")
        .args(["--norc", "-c", complete])
        .arg(&script)
        .output()
        .expect("bash runs");
    assert_eq!(
        text(&completed.stdout),
        "passwd\n",
        "{}",
        text(&completed.stderr)
    );
    for shell in ["zsh", "fish"] {
        let printed = text(&tandem(&["completions", shell]).stdout);
        assert!(printed.contains("passwd"), "{shell}: {printed}");
    }
}

#[test]
fn every_visible_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path().join("man1");
    let written = tandem(&["man", "--output", &folder.display().to_string()]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    assert!(page("tandem.1").contains("tandem\\-user(1)"));
    assert!(page("tandem-user-passwd.1").contains("Change the password of a subscriber"));
    let examples =
        ".nf\ntandem user add alice@example.org\ntandem user add alice \\-\\-password\\-file ";
    let add = page("tandem-user-add.1");
    assert!(add.contains(examples), "one line for each example: {add}");
    assert!(add.contains("TANDEM_CONFIG"), "{add}");
    let hidden = "tandem-bench-stack-server.1";
    assert!(!folder.join(hidden).exists(), "{hidden}");
}

#[test]
fn pages_that_cannot_be_written_are_reported_with_their_directory() {
    let place = Path::new("/dev/null/man1");
    let refused = tandem(&["man", "--output", &place.display().to_string()]);
    let problem = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        problem.starts_with("tandem: cannot write the manual pages to /dev/null/man1: "),
        "{problem}"
    );
}
