//! What has no place in a database of Kamailio: call forwarding, dialogs and call records. The configuration check refuses the latter two,
//! so nothing asks for them. Aliases are read from no table.

use super::KamailioBackend;
use crate::backend::{DialogTable, Fault, RecordTable, ServiceTable, VisitDialog};
use crate::call_row::CallRow;
use crate::dialogs::DialogRow;
use crate::node_name::NodeName;
use crate::service::{Alias, Forwarding, SubscriberForwarding};
use async_trait::async_trait;

const PROBLEM: &str = "this is Kamailio's database, opened read-only";

/// The fault of every change of subscribers.
pub(super) fn subscribers() -> Fault {
    Fault::Unwritable {
        problem: PROBLEM.to_owned(),
        remedy: "change subscribers as before, for example with kamctl",
    }
}

fn tables() -> Fault {
    Fault::Unwritable {
        problem: PROBLEM.to_owned(),
        remedy: "use a database of Tandem's own",
    }
}

#[async_trait]
impl DialogTable for KamailioBackend {
    async fn load_dialogs(
        &self,
        _: &NodeName,
        _: u32,
        _: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn save_dialogs(&self, _: &NodeName, _: &[DialogRow]) -> Result<(), Fault> {
        Err(tables())
    }

    async fn load_overdue_dialogs(
        &self,
        _: &NodeName,
        _: (u32, u32),
        _: &mut VisitDialog<'_>,
    ) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn delete_expired_dialogs(&self, _: &NodeName, _: u32) -> Result<u64, Fault> {
        Ok(0)
    }
}

#[async_trait]
impl RecordTable for KamailioBackend {
    async fn append(&self, _: &[CallRow<'_>], _: &NodeName) -> Result<(), Fault> {
        Err(tables())
    }

    async fn count_records(&self) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn delete_records(&self, _: &NodeName, _: i64, _: u32) -> Result<u64, Fault> {
        Ok(0)
    }
}

#[async_trait]
impl ServiceTable for KamailioBackend {
    async fn set_aliases(&self, _: &[Alias]) -> Result<(), Fault> {
        Err(tables())
    }

    async fn remove_alias(&self, _: &str, _: &str) -> Result<bool, Fault> {
        Err(tables())
    }

    async fn find_alias(&self, _: &str, _: &str) -> Result<Option<String>, Fault> {
        Ok(None)
    }

    async fn aliases(&self, _: (&str, &str), _: u32) -> Result<Vec<Alias>, Fault> {
        Ok(Vec::new())
    }

    async fn set_forwarding(&self, _: &str, _: &str, _: &Forwarding) -> Result<bool, Fault> {
        Err(tables())
    }

    async fn find_forwarding(&self, _: &str, _: &str) -> Result<Option<Forwarding>, Fault> {
        Ok(None)
    }

    async fn forwardings(
        &self,
        _: (&str, &str),
        _: u32,
    ) -> Result<Vec<SubscriberForwarding>, Fault> {
        Ok(Vec::new())
    }
}
