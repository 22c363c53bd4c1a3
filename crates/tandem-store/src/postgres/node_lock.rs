//! The name of a node as an advisory lock of a session. The server ends it with the session: at once if the process dies, within half a
//! minute if its machine or the network does.

use super::{connect, fault};
use crate::backend::Fault;
use crate::network::{Fence, Reservation, Reserve, new_epoch, within};
use crate::node_name::NodeName;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Postgres, Transaction};

/// The key of the lock; $1 is the name of the node. The lock belongs to the database, so the key need not name it.
const KEY: &str = "hashtextextended('tandem node ' || $1, 0)";

/// How to take the lock of a node.
pub(super) struct NodeLock {
    options: PgConnectOptions,
    node: NodeName,
}

impl NodeLock {
    pub(super) fn new(options: PgConnectOptions, node: NodeName) -> Self {
        let name = format!("tandem node {node}, process {}", std::process::id());
        // PostgreSQL shows 63 bytes.
        let options = options.application_name(&name);
        Self { options, node }
    }

    /// Waits two seconds for the lock. Returns whether it was granted.
    async fn lock(&self, session: &mut PgConnection) -> Result<bool, sqlx::Error> {
        sqlx::query("SET lock_timeout = 2000")
            .execute(&mut *session)
            .await?;
        let query = format!("SELECT pg_advisory_lock({KEY})");
        let locked = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(self.node.as_str())
            .execute(session)
            .await;
        match locked {
            Ok(_) => Ok(true),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03") => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Begins the epoch `next`, unless `known` is the latest one. Waits for transactions that write in the latest one. The session has the
    /// lock. Returns the epoch.
    async fn begin_epoch(
        &self,
        session: &mut PgConnection,
        (known, next): (Option<i64>, i64),
    ) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "INSERT INTO node_epoch (node, epoch) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE \
             SET epoch = CASE WHEN node_epoch.epoch = $3 THEN node_epoch.epoch ELSE excluded.epoch END RETURNING epoch",
        )
        .bind(self.node.as_str())
        .bind(next)
        .bind(known)
        .fetch_one(session)
        .await
    }

    async fn holder(&self, session: &mut PgConnection) -> Result<String, sqlx::Error> {
        let query = format!(
            "SELECT format('%s (%s) at %s', application_name, 'session ' || pid, coalesce(host(client_addr), 'this machine')) \
             FROM pg_stat_activity JOIN pg_locks USING (pid) \
             WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND (classid::bigint << 32) | objid::bigint = {KEY}"
        );
        let holder: Option<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(query))
            .bind(self.node.as_str())
            .fetch_optional(session)
            .await?;
        Ok(holder.unwrap_or_else(|| "another session".to_owned()))
    }
}

impl Reserve for NodeLock {
    type Session = PgConnection;

    async fn connect(&self) -> Result<PgConnection, Fault> {
        connect(&self.options).await.map_err(fault)
    }

    async fn reserve(
        &self,
        session: &mut PgConnection,
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
    connection: &'c mut PgConnection,
    node: &NodeName,
    fence: &Fence,
) -> Result<Transaction<'c, Postgres>, sqlx::Error> {
    let epoch = fence.pass()?;
    let mut transaction = connection.begin().await?;
    if let Some(epoch) = epoch {
        sqlx::query("SELECT epoch FROM node_epoch WHERE node = $1 AND epoch = $2 FOR SHARE")
            .bind(node.as_str())
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
