//! Workers over real loopback sockets. Each test binds ports of its own that the kernel chooses.

mod binding;
mod echo;
mod hand_over;
mod inbox;
mod script;
mod timers;
