//! Value types of the sections about a Kamailio's tables: algorithms of `dispatcher`, and what tables of prefixes look like.
use super::{Listed, Setting, Wrong, whole_number};
use tandem_store::{DispatcherAlgorithm, DispatcherProbing, PrefixValues};
use toml::de::{DeTable, DeValue};

/// The number of an algorithm of `ds_select_dst()` that has a counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgorithmNumber {
    number: u32,
    /// What it stands for.
    pub algorithm: DispatcherAlgorithm,
}

impl Setting for AlgorithmNumber {
    fn expected() -> String {
        "the number of an algorithm of ds_select_dst(): 0, 4, 6, 8, 9, 10 or 11".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let number = u32::try_from(whole_number(value)?).map_err(|_| Wrong::default())?;
        match DispatcherAlgorithm::try_from(number) {
            Ok(algorithm) => Ok(Self { number, algorithm }),
            Err(unsupported) => Err(Wrong::hint(unsupported.to_string())),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.number.to_string())
    }
}

/// The algorithm of a set: a table with `set` and `algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAlgorithm {
    /// The set.
    pub set: u32,
    /// Its algorithm.
    pub algorithm: AlgorithmNumber,
}

impl SetAlgorithm {
    fn of_table(table: &DeTable<'_>) -> Result<Self, Wrong> {
        let unknown = |key: &&str| !["set", "algorithm"].contains(key);
        let mut keys = table.iter().map(|(key, _)| key.get_ref().as_ref());
        if let Some(key) = keys.find(unknown) {
            return Err(Wrong::hint(format!("unknown key `{key}`")));
        }
        let of = |key: &str| {
            let value = table.get(key).map(toml::Spanned::get_ref);
            value.ok_or_else(|| Wrong::hint(format!("`{key}` is missing")))
        };
        let set = i32::try_from(whole_number(of("set")?)?).ok();
        let set = set.and_then(|set| u32::try_from(set).ok());
        Ok(Self {
            set: set.ok_or_else(|| Wrong::hint("`set` must be from 0 to 2147483647"))?,
            algorithm: AlgorithmNumber::read(of("algorithm")?)?,
        })
    }
}

impl Setting for SetAlgorithm {
    fn expected() -> String {
        "a table such as { set = 2, algorithm = 9 }".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            DeValue::Table(table) => Self::of_table(table),
            _ => Err(Wrong::default()),
        }
    }

    fn to_toml(&self) -> Option<String> {
        let Self { set, algorithm } = self;
        let number = algorithm.number;
        Some(format!("{{ set = {set}, algorithm = {number} }}"))
    }
}

impl Listed for SetAlgorithm {
    fn plural() -> String {
        "algorithms of sets".to_owned()
    }
}

/// The columns of a table of prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixLayout {
    /// One tree of `mtree`.
    #[default]
    Mtree,
    /// Several trees of `mtree` in one table.
    Mtrees,
    /// The table of `pdt`.
    Pdt,
}

super::keyword::words!(PrefixLayout {
    Mtree = "mtree",
    Mtrees = "mtrees",
    Pdt = "pdt",
});
super::keyword::words!(PrefixValues {
    Groups = "groups",
    Sets = "sets",
    Destinations = "destinations",
});
super::keyword::words!(DispatcherProbing {
    All = "all",
    Flagged = "flagged",
    Never = "never",
});
