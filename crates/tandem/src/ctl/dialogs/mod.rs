//! `tandem ctl dialogs`: the calls in progress.
mod shown;
mod stats;

use super::request::Request;
use super::watch::Watch;
use clap::Subcommand;
use serde_json::json;
use shown::{Dialogs, Ended, Listed};
use stats::DialogStats;

/// What to do with dialogs.
#[derive(Debug, Subcommand)]
pub enum DialogsCommand {
    /// List calls in progress, in no particular order.
    #[command(
        after_help = "Examples:\n  tandem ctl dialogs list --user alice@example.org\n  tandem ctl dialogs list --state early --watch\n  tandem ctl dialogs list --limit 1000 --after 0-2048 --json"
    )]
    List(List),
    /// Show all that is known about one call.
    #[command(
        after_help = "Examples:\n  tandem ctl dialogs get 019f3c2ab4d85e6f708192a3b4c5d6e7\n  tandem ctl dialogs get 8f1c2a@192.0.2.7 --json"
    )]
    Get {
        /// Id of the dialog, as in records and events, or a Call-ID.
        id: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// End one call: send BYE to both parties, or cancel it if it is not answered yet.
    #[command(
        after_help = "Examples:\n  tandem ctl dialogs end 019f3c2ab4d85e6f708192a3b4c5d6e7\n  tandem ctl dialogs end 8f1c2a@192.0.2.7 --reason fraud"
    )]
    End {
        /// Id of the dialog, as in records and events, or a Call-ID: all its dialogs end.
        id: String,
        /// Text for the Reason header field, after `Ended by operator`; at most 128 bytes.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Show how many calls each worker has begun and ended, and why they ended.
    #[command(after_help = "Examples:\n  tandem ctl dialogs stats --watch=5s")]
    Stats(Watch),
}

/// Which dialogs to list.
#[derive(Debug, clap::Args)]
pub struct List {
    /// List only calls with this user as a party: user@domain, a user part, or a sip or tel URI.
    #[arg(long, conflicts_with = "call_id")]
    user: Option<String>,
    /// List only the dialogs with this Call-ID.
    #[arg(long, value_name = "CALL-ID")]
    call_id: Option<String>,
    /// List only dialogs in this state.
    #[arg(long, value_parser = ["early", "confirmed"])]
    state: Option<String>,
    /// Maximum number of dialogs, from 1 to 10000.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: u64,
    /// Begin after the page that ended with this.
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

impl DialogsCommand {
    /// The method that the command calls.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::List(list) => {
                let List {
                    user,
                    call_id,
                    state,
                    limit,
                    after,
                    watch,
                } = list;
                let params = json!({
                    "limit": limit, "after": after, "user": user, "call_id": call_id, "state": state,
                });
                let request = Request::new::<Listed>("dialogs.list", params);
                request.of_dialogs().every(watch)
            }
            Self::Get { id, watch } => {
                let request = Request::new::<Dialogs>("dialogs.get", json!({ "id": id }));
                request.of_dialogs().every(watch)
            }
            Self::End { id, reason } => {
                let params = json!({ "id": id, "reason": reason });
                Request::new::<Ended>("dialogs.end", params).of_dialogs()
            }
            Self::Stats(watch) => {
                Request::new::<DialogStats>("dialogs.stats", json!({})).every(watch)
            }
        }
    }
}
