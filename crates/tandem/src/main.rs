//! The `tandem` program.
use std::process::ExitCode;

/// Of the allocators that are as fast, the one that gives the memory of a peak back although the threads that freed it sleep.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tandem::cli::run()
}
