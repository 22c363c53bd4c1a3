//! Gateways and groups: what calls, probes, operators and reloads see.

mod bad_descriptions;
mod choice;
mod exact_counts;
mod explanations;
mod health;
mod probes;
mod reloads;
mod setup;
mod several_groups;
mod shares;
