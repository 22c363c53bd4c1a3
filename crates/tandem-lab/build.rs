//! Rebuilds the crate when the page has changed, because the page is embedded.

fn main() {
    println!("cargo:rerun-if-changed=../../console/dist");
}
