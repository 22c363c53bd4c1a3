//! The name of a node as a named lock of a session. The server ends it with the session: at once if the process dies, within half a minute
//! if its machine or the network does.

use super::{connect, fault};
use crate::backend::Fault;
use crate::network::{Reservation, Reserve, within};
use crate::node_name::NodeName;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, MySqlConnection};

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

    async fn reserve(&self) -> Result<Reservation<MySqlConnection>, Fault> {
        let mut session = connect(&self.options).await.map_err(fault)?;
        if within(self.lock(&mut session)).await.map_err(fault)? {
            return Ok(Reservation::Granted(session));
        }
        let holder = within(self.holder(&mut session)).await.map_err(fault)?;
        Ok(Reservation::Held {
            by: format!("{holder} has reserved the node name \"{}\"", self.node),
        })
    }
}
