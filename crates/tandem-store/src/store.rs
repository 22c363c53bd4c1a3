//! The open store: one small pool of connections per process, for any number of workers.

use crate::backend::{Claim, Fault, IfMissing, Opened, StoreOptions};
use crate::database::Database;
use crate::dialogs::Dialogs;
use crate::error::StoreError;
use crate::kamailio::{self, KamailioOptions, TrustedNetworks};
use crate::locations::Locations;
use crate::node_name::NodeName;
use crate::records::Records;
use crate::services::Services;
use crate::subscribers::Subscribers;
use crate::tables::{Select, VisitRow};
use crate::url::shown_url;
use std::sync::Arc;

/// An open database with all tables up to date. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    node: NodeName,
    created: bool,
}

impl Store {
    /// Opens the database that `url` names (`sqlite:FILE`, relative to the working directory, `postgres://USER@HOST/DATABASE` or
    /// `mysql://USER@HOST/DATABASE`), and brings its tables up to date. A file that does not exist is created; a database of a server must
    /// exist.
    ///
    /// This is for everything but servers: any number of processes may do so, also beside a server. Bindings are saved under the default
    /// [`NodeName`].
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Open`], [`StoreError::Corrupt`], [`StoreError::Schema`], [`StoreError::Busy`], or
    /// [`StoreError::Away`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, IfMissing::Create, StoreOptions::default()).await
    }

    /// Like [`Store::open`], but fails if the database does not exist or has no tables. It is for commands that make no sense on an empty database.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::NoDatabase`].
    pub async fn open_existing(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, IfMissing::Fail, StoreOptions::default()).await
    }

    /// Like [`Store::open_existing`], but changes nothing: no table is created or brought up to date. It is for
    /// [`Store::read_prefixes`] and [`Store::read_dispatcher`] only, with the tables of any program.
    ///
    /// # Errors
    /// As [`Store::open_existing`].
    pub async fn open_to_read(url: &str) -> Result<Self, StoreError> {
        let options = StoreOptions {
            connections: 1,
            ..StoreOptions::default()
        };
        Self::open_with(url, IfMissing::FailAndLeave, options).await
    }

    /// Like [`Store::open`], for the server `node`, with a choice of connections and of what a commit must survive. No other process can be this node on this
    /// database until [`Store::close`], the drop of the last clone, or the end of the process, however it ends.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::InUse`] if another server is this node, or [`StoreError::Unwritable`] if that can't be found out.
    pub async fn open_as(
        url: &str,
        node: NodeName,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let store = Self::open_with(url, IfMissing::Create, options).await?;
        let failed = store.database.failed("reserve the name of the node");
        match store.database.backend.claim(&node).await.map_err(failed)? {
            Claim::Granted => Ok(Self { node, ..store }),
            Claim::Held { by } => Err(StoreError::InUse {
                url: store.url().to_owned(),
                problem: by,
            }),
        }
    }

    /// Opens the database of a Kamailio, to read its tables `subscriber`, `location` and `address` in place. Nothing is written to it:
    /// changes of subscribers fail, and saved bindings are forgotten.
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Open`], [`StoreError::Schema`], [`StoreError::Random`], [`StoreError::Busy`], or
    /// [`StoreError::Away`].
    pub async fn open_kamailio(
        url: &str,
        kamailio: KamailioOptions,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let Opened { backend, created } = kamailio::open(url, kamailio, options).await?;
        let url = shown_url(url).into();
        Ok(Self {
            database: Database { backend, url },
            node: NodeName::default(),
            created,
        })
    }

    async fn open_with(
        url: &str,
        if_missing: IfMissing,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let (database, created) = Database::open(url, if_missing, options).await?;
        Ok(Self {
            database,
            node: NodeName::default(),
            created,
        })
    }

    /// Whether opening the store created the database.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The URL it was opened with, without the password.
    pub fn url(&self) -> &str {
        &self.database.url
    }

    /// The subscribers: who may register and call.
    pub fn subscribers(&self) -> Subscribers<'_> {
        Subscribers::new(&self.database)
    }

    /// Aliases and call forwarding.
    pub fn services(&self) -> Services<'_> {
        Services::new(&self.database)
    }

    /// The saved bindings.
    pub fn locations(&self) -> Locations<'_> {
        Locations::new(&self.database, &self.node)
    }

    /// The records of calls that have ended.
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.database, &self.node)
    }

    /// The saved dialogs.
    pub fn dialogs(&self) -> Dialogs<'_> {
        Dialogs::new(&self.database, &self.node)
    }

    /// The networks of a group of trusted peers. Only the database of a Kamailio has such groups (`address`).
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn trusted_networks(&self, group: u32) -> Result<TrustedNetworks, StoreError> {
        let found = self.database.backend.trusted_networks(group).await;
        found.map_err(self.database.failed("read the trusted peers"))
    }

    /// 32 random bytes for nonces and Record-Route cookies, which must survive a restart. They are drawn at the first start and never
    /// change.
    ///
    /// # Errors
    /// [`StoreError::Random`], or any error of the database.
    pub async fn secret(&self) -> Result<[u8; 32], StoreError> {
        const DOING: &str = "read the node's secret";
        let mut fresh = [0_u8; 32];
        getrandom::fill(&mut fresh).map_err(|error| StoreError::Random {
            problem: error.to_string(),
        })?;
        let secret = self.database.backend.secret(&fresh).await;
        let secret = secret.map_err(self.database.failed(DOING))?;
        secret.try_into().map_err(|odd: Vec<u8>| StoreError::Query {
            url: self.url().to_owned(),
            doing: DOING,
            problem: format!(
                "{} bytes instead of 32; delete the row of node_secret to create a new one",
                odd.len()
            ),
        })
    }

    /// Streams the rows of a table or view that others have made.
    pub(crate) async fn rows(
        &self,
        select: &Select<'_>,
        visit: &mut VisitRow<'_>,
    ) -> Result<u64, StoreError> {
        let read = self.database.backend.rows(select, visit).await;
        read.map_err(|fault| match fault {
            Fault::Table { problem, remedy } => StoreError::Table {
                url: self.url().to_owned(),
                table: select.table.to_string(),
                problem,
                remedy,
            },
            fault => self.database.failed("read a table")(fault),
        })
    }

    /// Who has taken the name of this node, which [`Store::open_as`] reserved: the connection that holds it broke, and another server was
    /// faster, or table `node_epoch` was changed. Until this server has the name again, its saves fail with [`StoreError::NameTaken`].
    /// `None`: the name was not taken.
    pub fn name_taken_by(&self) -> Option<Arc<str>> {
        self.database.backend.name_taken_by()
    }

    /// Waits for running operations and closes all connections.
    pub async fn close(&self) {
        self.database.backend.close().await;
    }
}
