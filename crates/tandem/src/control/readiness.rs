//! Whether traffic may be sent to this server.
use super::lifecycle::Phase;
use super::state::Control;
use std::borrow::Cow;

impl Control {
    /// Why no traffic may be sent to this server; `None`: it is ready.
    pub fn unready(&self) -> Option<Cow<'static, str>> {
        Some(match self.phase() {
            Phase::Ready => return self.name_taken(),
            Phase::Starting => match &*self.obstacle.load() {
                Some(obstacle) => obstacle.to_string().into(),
                None => {
                    "the server is starting: it reads database, caches and registrations".into()
                }
            },
            Phase::Draining => "the server is draining: it accepts no new calls".into(),
            Phase::Stopping => "the server is stopping".into(),
        })
    }

    fn name_taken(&self) -> Option<Cow<'static, str>> {
        let by = self.running()?.store.name_taken_by()?;
        let reason = format!(
            "this server does not have its node name in the database, so it saves nothing: {by}; if another server has the name, stop one \
             of them, or change node.name"
        );
        Some(reason.into())
    }
}
