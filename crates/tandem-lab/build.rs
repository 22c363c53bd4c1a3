//! Builds again when the page has been built: it is embedded.

fn main() {
    println!("cargo:rerun-if-changed=../../console/dist");
}
