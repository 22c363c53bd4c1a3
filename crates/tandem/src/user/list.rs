//! `tandem user list`: lists the subscribers.

use super::report::{Failure, grouped};
use super::{Session, address};
use clap::Args;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;

/// Filter and format of the list.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// List only subscribers of this domain.
    #[arg(long, value_name = "DOMAIN", value_parser = address::canonical_domain)]
    domain: Option<String>,
    /// List at most N subscribers, ordered by username.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print a JSON array of objects with username and domain.
    #[arg(long)]
    json: bool,
}

impl Session<'_> {
    pub(super) fn list(&mut self, arguments: &ListArguments) -> Result<(), Failure> {
        let store = self.open_existing()?;
        let domain = arguments.domain.as_deref();
        let mut output = Output::new(&mut *self.out, arguments.json);
        let listed = self.runtime.block_on(async {
            let shown = store
                .subscribers()
                .list(domain, arguments.limit, |username, domain| {
                    output.subscriber(username, domain)
                })
                .await?;
            // A limited list also reports the total.
            let total = match arguments.limit {
                Some(_) => store.subscribers().count(domain).await?,
                None => shown,
            };
            store.close().await;
            Ok::<_, Failure>((shown, total))
        });
        output.finish()?;
        let (shown, total) = listed?;
        if shown < total {
            self.note(format_args!(
                "{} of {} subscribers",
                grouped(shown),
                grouped(total)
            ));
        } else if total == 0 {
            let of = domain
                .map(|domain| format!(" of {domain}"))
                .unwrap_or_default();
            self.note(format_args!(
                "no subscribers{of}; to add one: tandem user add ADDRESS"
            ));
        }
        Ok(())
    }
}

/// Writes the list. It keeps the first error, because the store's callback cannot return one.
struct Output<'o> {
    to: BufWriter<&'o mut (dyn Write + Send)>,
    json: bool,
    count: u64,
    failed: Option<std::io::Error>,
}

impl<'o> Output<'o> {
    fn new(to: &'o mut (dyn Write + Send), json: bool) -> Self {
        Self {
            to: BufWriter::with_capacity(1 << 16, to),
            json,
            count: 0,
            failed: None,
        }
    }

    fn subscriber(&mut self, username: &str, domain: &str) -> ControlFlow<()> {
        let lead = if self.count == 0 { "[\n  " } else { ",\n  " };
        let written = if self.json {
            let [username, domain] = [username, domain].map(serde_json::Value::from);
            write!(
                self.to,
                "{lead}{{\"username\":{username},\"domain\":{domain}}}"
            )
        } else {
            writeln!(self.to, "{username}@{domain}")
        };
        self.count += 1;
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        let end = match (self.json, self.count) {
            (false, _) => "",
            (true, 0) => "[]\n",
            (true, _) => "\n]\n",
        };
        let failed = self.failed.take();
        let finished = match failed {
            Some(error) => Err(error),
            None => self
                .to
                .write_all(end.as_bytes())
                .and_then(|()| self.to.flush()),
        };
        if finished.is_err() {
            // Discards the buffer, so that dropping it does not retry the write.
            let _ = self.to.into_parts();
        }
        finished.map_err(|error| Failure::from_output(&error))
    }
}
