//! The result of a run, as text and JSON.

use super::{Load, Measured, Options};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "named by what they are; times in the unit of the name"
)]
pub struct Report {
    pub workload: String,
    pub begun: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub retransmitted: u64,
    pub unexpected: u64,
    pub responses: BTreeMap<u16, u64>,
    pub units_per_second: f64,
    pub delay_p50_us: u64,
    pub delay_p90_us: u64,
    pub delay_p99_us: u64,
    pub delay_p999_us: u64,
    pub delay_max_us: u64,
    pub server_cpu_us_per_unit: Option<f64>,
    /// The part of it that was spent after the last unit.
    pub clean_up_us_per_unit: Option<f64>,
    /// CPUs busy under load.
    pub server_busy: Option<f64>,
    pub server_memory_bytes: Option<u64>,
    pub server_peak_memory_bytes: Option<u64>,
    pub generator_cpu_us_per_unit: f64,
    pub generator_late_units: u64,
    pub generator_kernel_drops: u64,
}

impl Report {
    pub(super) fn new(options: &Options, load: &Load, measured: &Measured) -> Self {
        let counts = load.counts();
        let Measured {
            elapsed,
            server_cpu,
            clean_up,
            own_cpu,
            memory,
        } = *measured;
        let per_unit = |cpu: Duration| cpu.as_secs_f64() * 1e6 / counts.begun.max(1) as f64;
        // The units of the warm-up are cleaned up as well.
        let cleaned_up = (options.warm_up + counts.begun).max(1);
        let clean_up = clean_up.map(|cpu| cpu.as_secs_f64() * 1e6 / cleaned_up as f64);
        Self {
            workload: format!("{:?}", options.workload),
            begun: counts.begun,
            succeeded: counts.succeeded,
            failed: counts.failed,
            retransmitted: counts.retransmitted,
            unexpected: counts.unexpected,
            responses: counts.responses.clone(),
            units_per_second: counts.begun as f64 / elapsed.as_secs_f64(),
            delay_p50_us: counts.delay.value_at_quantile(0.5),
            delay_p90_us: counts.delay.value_at_quantile(0.9),
            delay_p99_us: counts.delay.value_at_quantile(0.99),
            delay_p999_us: counts.delay.value_at_quantile(0.999),
            delay_max_us: counts.delay.max(),
            server_cpu_us_per_unit: server_cpu
                .map(|cpu| per_unit(cpu) + clean_up.unwrap_or_default()),
            clean_up_us_per_unit: clean_up,
            server_busy: server_cpu.map(|cpu| cpu.as_secs_f64() / elapsed.as_secs_f64()),
            server_memory_bytes: memory.map(|memory| memory.0),
            server_peak_memory_bytes: memory.map(|memory| memory.1),
            generator_cpu_us_per_unit: per_unit(own_cpu),
            generator_late_units: load.late(),
            generator_kernel_drops: load.kernel_drops(),
        }
    }

    /// Whether every unit succeeded and no message was lost.
    pub const fn is_clean(&self) -> bool {
        self.failed == 0 && self.retransmitted == 0 && self.generator_kernel_drops == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: Option<u64>| {
            bytes.map_or("-".into(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6))
        };
        let cpu = self
            .server_cpu_us_per_unit
            .map_or("-".into(), |cpu| format!("{cpu:.2} us"));
        writeln!(
            f,
            "{}: {} units at {:.0}/s",
            self.workload, self.begun, self.units_per_second
        )?;
        writeln!(
            f,
            "  succeeded {}, failed {}, retransmitted {}, unexpected {}, responses {:?}",
            self.succeeded, self.failed, self.retransmitted, self.unexpected, self.responses
        )?;
        writeln!(
            f,
            "  server: {cpu} of CPU per unit, {} now, {} at its peak",
            mega(self.server_memory_bytes),
            mega(self.server_peak_memory_bytes)
        )?;
        writeln!(
            f,
            "  delay: p50 {} us, p99 {} us, max {} us",
            self.delay_p50_us, self.delay_p99_us, self.delay_max_us
        )?;
        write!(
            f,
            "  generator: {:.2} us of CPU per unit, {} units late, {} kernel drops",
            self.generator_cpu_us_per_unit, self.generator_late_units, self.generator_kernel_drops
        )
    }
}
