//! The `tandem` program.
use std::process::ExitCode;

/// Among equally fast allocators, this one returns memory to the system after a peak, even while the threads that freed it sleep.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tandem::cli::run()
}
