//! The name of a node as a named lock of a session. The server ends it with the session: at once if the process dies, within half a minute
//! if its machine or the network does.

use super::{connect, fault};
use crate::backend::Fault;
use crate::network::{Fence, Reservation, Reserve, new_epoch, within};
use crate::node_name::NodeName;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, Connection, MySql, MySqlConnection, Transaction};

/// The name of the lock, of at most 64 characters; ? is the name of the node. All databases of a server share the names.
const NAME: &str = "CONCAT('tandem ', SHA1(CONCAT(DATABASE(), ' ', ?)))";

/// How to take the lock of a node.
pub(super) struct NodeLock {
    options: MySqlConnectOptions,
    node: NodeName,
}

impl NodeLock {
    pub(super) fn new(options: MySqlConnectOptions, node: NodeName) -> Self {
        Self { options, node }
    }

    /// Waits two seconds for the lock. Returns whether it was granted.
    async fn lock(&self, session: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
        // The session is tested more often than that; without tests, its machine is gone.
        sqlx::raw_sql("SET SESSION wait_timeout = 30")
            .execute(&mut *session)
            .await?;
        let granted: Option<i64> =
            sqlx::query_scalar(AssertSqlSafe(format!("SELECT GET_LOCK({NAME}, 2)")))
                .bind(self.node.as_str())
                .fetch_one(session)
                .await?;
        Ok(granted == Some(1))
    }

    /// Begins the epoch `next`, unless `known` is the latest one. Waits for transactions that write in the latest one. The session has the
    /// lock. Returns the epoch.
    async fn begin_epoch(
        &self,
        session: &mut MySqlConnection,
        (known, next): (Option<i64>, i64),
    ) -> Result<i64, sqlx::Error> {
        sqlx::query(
            "INSERT INTO node_epoch (node, epoch) VALUES (?, ?) ON DUPLICATE KEY UPDATE epoch = IF(epoch = ?, epoch, VALUES(epoch))",
        )
        .bind(self.node.as_str().as_bytes())
        .bind(next)
        .bind(known)
        .execute(&mut *session)
        .await?;
        sqlx::query_scalar("SELECT epoch FROM node_epoch WHERE node = ?")
            .bind(self.node.as_str().as_bytes())
            .fetch_one(session)
            .await
    }

    async fn holder(&self, session: &mut MySqlConnection) -> Result<String, sqlx::Error> {
        let query = format!(
            "SELECT CONCAT('session ', id, ' from ', host) FROM information_schema.processlist WHERE id = IS_USED_LOCK({NAME})"
        );
        let holder: Option<String> = sqlx::query_scalar(AssertSqlSafe(query))
            .bind(self.node.as_str())
            .fetch_optional(session)
            .await?;
        Ok(holder.unwrap_or_else(|| "another session".to_owned()))
    }
}

impl Reserve for NodeLock {
    type Session = MySqlConnection;

    async fn connect(&self) -> Result<MySqlConnection, Fault> {
        connect(&self.options).await.map_err(fault)
    }

    async fn reserve(
        &self,
        session: &mut MySqlConnection,
        epoch: Option<i64>,
    ) -> Result<Reservation, Fault> {
        if within(self.lock(session)).await.map_err(fault)? {
            let epochs = (epoch, new_epoch()?);
            let begun = within(self.begin_epoch(session, epochs)).await;
            return Ok(Reservation::Granted {
                epoch: begun.map_err(fault)?,
            });
        }
        let holder = within(self.holder(session)).await.map_err(fault)?;
        Ok(Reservation::Held {
            by: format!("{holder} has reserved the node name \"{}\"", self.node),
        })
    }
}

/// Begins a transaction that changes rows of a node. Until it ends, no other server can begin an epoch of this name.
///
/// # Errors
/// [`RowNotFound`](sqlx::Error::RowNotFound) if another server has begun one already, or is known to have the name.
pub(super) async fn begin_as<'c>(
    connection: &'c mut MySqlConnection,
    node: &NodeName,
    fence: &Fence,
) -> Result<Transaction<'c, MySql>, sqlx::Error> {
    let epoch = fence.pass()?;
    let mut transaction = connection.begin().await?;
    if let Some(epoch) = epoch {
        sqlx::query("SELECT epoch FROM node_epoch WHERE node = ? AND epoch = ? LOCK IN SHARE MODE")
            .bind(node.as_str().as_bytes())
            .bind(epoch)
            .fetch_one(&mut *transaction)
            .await
            .inspect_err(|error| {
                if matches!(error, sqlx::Error::RowNotFound) {
                    fence.note_refusal(epoch);
                }
            })?;
    }
    Ok(transaction)
}
