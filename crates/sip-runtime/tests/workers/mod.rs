//! The test suite that runs on every event loop: workers with real sockets and threads.

mod behind;
mod binding;
mod driven;
mod echo;
mod hand_over;
mod inbox;
mod records;
mod returned;
mod script;
mod steering;
mod streams;
mod timers;
mod turns;
