//! The sections about what the tables of a Kamailio say about routes: gateways of its module `dispatcher`, prefixes of `mtree` and `pdt`.
use crate::config::catalogue::{any, between, required};
use crate::config::declare::{choice, section};
use crate::config::values::duration::{hours, millis, seconds};
use crate::config::values::kamailio::{AlgorithmNumber, PrefixLayout, SetAlgorithm};
use crate::config::values::routing::TableName;
use sip_routing::gateway::{FailoverRules, HealthRules, StatusSet};
use std::time::Duration;
use tandem_store::{
    DispatcherOptions, DispatcherProbing, DispatcherSource, InvalidName, PrefixSource, PrefixValues,
};

choice! {
    /// Gateways and groups from the table of Kamailio's module `dispatcher` ([from Kamailio](from-kamailio.md#gateways-from-dispatcher)), in
    /// addition to those of this file. Each set becomes a group: `dispatcher-1` for the set 1. The table is read at the start, at each
    /// reload, and on `tandem ctl gateways reload`, which replaces all gateways of the table while calls run, or changes nothing. It is in the
    /// database of `database.url`, and the server only reads it.
    Dispatcher {
        /// Where the destinations come from.
        reload source = {
            /// There are none.
            None = "none",
            /// The database.
            Database(Box<DispatcherTable>) = "database",
        }
    }
}

section! {
    /// How the table is read: what Kamailio has in its script and in parameters of the module.
    DispatcherTable {
        /// Table or view with the columns `setid`, `destination`, `flags`, `priority` and `attrs`. If yours has other names, make a view.
        reload table: TableName = TableName("dispatcher".to_owned()), any();

        /// The algorithm of sets that `sets` does not name, as in `ds_select_dst()`: 0, 4, 6, 8, 9, 10 or 11.
        reload algorithm: AlgorithmNumber = AlgorithmNumber::default(), any();

        /// Algorithms of sets, such as `{ set = 2, algorithm = 9 }`.
        reload sets: Vec<SetAlgorithm> = Vec::new(), any();

        /// Which gateways are probed, as `ds_probing_mode`: `"all"` (1), `"flagged"` (0, 2 and 3: those with the flag 8), or `"never"`
        /// (`ds_ping_interval` 0). A destination with the flag 32 never is.
        reload probing: DispatcherProbing = DispatcherProbing::default(), any();

        /// Time between two probes of a gateway (`ds_ping_interval`).
        reload probe_interval: Duration = HealthRules::default().interval, between(seconds(1), hours(1));

        /// How long a probe waits for its final response. Must not be longer than `probe_interval`.
        reload probe_timeout: Duration = HealthRules::default().timeout, between(millis(100), hours(1));

        /// Final responses to a probe that count as an answer (`ds_ping_reply_codes`).
        reload probe_codes: StatusSet = HealthRules::default().probe_answers, any();

        /// Consecutive misses until a gateway goes inactive (`ds_probing_threshold`). Failed calls count, too.
        reload misses: u8 = HealthRules::default().misses, between(1, 100);

        /// Consecutive answers until an inactive gateway returns (`ds_inactive_threshold`).
        reload answers: u8 = HealthRules::default().answers, between(1, 100);

        /// Responses, from 300 to 599, after which a call tries the next gateway of its set. It always does after 503, and never after 6xx.
        reload failover_codes: StatusSet = FailoverRules::default().codes, any();
    }
}

section! {
    /// A table of Kamailio's module `mtree` or `pdt`.
    KamailioPrefixes {
        /// Table or view in the database. The server only reads it.
        reload table: TableName = TableName("prefix_route".to_owned()), required();

        /// Columns of the table: `"mtree"` (`tprefix`, `tvalue`), `"mtrees"` (also `tname`: a prefix table for each tree), or `"pdt"` (`sdomain`,
        /// `prefix`, `domain`).
        reload layout: PrefixLayout = PrefixLayout::default(), any();

        /// What the value of a prefix is: `"groups"` (names of gateway groups, separated by semicolons), `"sets"` (sets of `dispatcher`, such
        /// as `2;1`), or `"destinations"` (a domain, an address or a SIP URI, which becomes a gateway and a group).
        reload values: PrefixValues = PrefixValues::default(), any();
    }
}

impl DispatcherTable {
    /// Where the destinations are.
    ///
    /// # Errors
    /// A name that no table has.
    pub fn source(&self) -> Result<DispatcherSource, InvalidName> {
        Ok(DispatcherSource::new(self.table.0.parse()?))
    }

    /// What its rows become.
    pub fn options(&self) -> DispatcherOptions {
        let sets = self.sets.iter();
        DispatcherOptions {
            algorithm: self.algorithm.algorithm,
            algorithms: sets.map(|it| (it.set, it.algorithm.algorithm)).collect(),
            probing: self.probing,
            health: HealthRules {
                interval: self.probe_interval,
                timeout: self.probe_timeout,
                probe_answers: self.probe_codes,
                misses: self.misses,
                answers: self.answers,
                ..HealthRules::default()
            },
            failover: FailoverRules {
                codes: self.failover_codes,
                ..FailoverRules::default()
            },
        }
    }
}

impl KamailioPrefixes {
    /// Where the prefixes are.
    ///
    /// # Errors
    /// A name that no table has.
    pub fn source(&self) -> Result<PrefixSource, InvalidName> {
        let table = self.table.0.parse()?;
        Ok(match self.layout {
            PrefixLayout::Mtree => PrefixSource::mtree(table),
            PrefixLayout::Mtrees => PrefixSource::mtrees(table),
            PrefixLayout::Pdt => PrefixSource::pdt(table),
        })
    }
}
