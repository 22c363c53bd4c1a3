//! The compiled conditions of a rule.

use super::condition::{Condition, Part};
use super::facts::Values;
use super::field_name::FieldName;
use super::methods::Methods;
use super::sources::Sources;
use super::text::Text;
use super::text_set::TextSet;
use sip_message::Message;
use sip_transport::{ListenerId, Protocol};

/// All conditions of a rule; `None` holds for every request.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    pub(super) methods: Option<Methods>,
    pub(super) sources: Option<Sources>,
    /// In ascending order.
    pub(super) listeners: Option<Box<[ListenerId]>>,
    pub(super) protocols: Option<Protocols>,
    pub(super) texts: [Option<TextSet>; Part::COUNT],
    pub(super) headers: Option<Box<[HeaderCondition]>>,
}

/// A set of protocols: one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocols(u8);

/// A condition on a header field.
#[derive(Clone, Debug)]
pub(super) struct HeaderCondition {
    pub(super) name: FieldName,
    /// `None`: the header field exists.
    pub(super) value: Option<TextSet>,
}

impl Conditions {
    /// The first condition that does not hold.
    pub(super) fn first_failed(&self, values: &Values<'_, '_>) -> Option<Condition> {
        let holds = |condition: &Condition| self.holds(*condition, values);
        Condition::ALL
            .into_iter()
            .find(|condition| !holds(condition))
    }

    /// The conditions that may fail although the lookups of [`super::index::Index`] found the rule.
    pub(super) fn undecided(&self) -> Vec<Condition> {
        let has_globs = |part: &Part| self.text_set(*part).is_some_and(TextSet::has_globs);
        let texts = Part::ALL.into_iter().filter(has_globs);
        let methods = self.methods.as_ref().filter(|methods| methods.has_others());
        let methods = methods.map(|_| Condition::Method);
        let headers = self.headers.as_ref().map(|_| Condition::Header);
        let all = methods.into_iter().chain(texts.map(Part::condition));
        all.chain(headers).collect()
    }

    #[inline]
    pub(super) fn holds(&self, condition: Condition, values: &Values<'_, '_>) -> bool {
        let facts = &values.facts;
        match condition {
            Condition::Method => {
                let methods = self.methods.as_ref();
                methods.is_none_or(|it| it.contains(facts.method()))
            }
            Condition::Source => {
                let sources = self.sources.as_ref();
                sources.is_none_or(|it| values.source.is_some_and(|source| it.contains(source)))
            }
            Condition::Listener => {
                let listener = facts.arrival.map(|it| it.listener);
                let is_in =
                    |it: &[ListenerId]| listener.is_some_and(|id| it.binary_search(&id).is_ok());
                self.listeners.as_deref().is_none_or(is_in)
            }
            Condition::Transport => {
                let protocol = facts.arrival.map(|it| it.protocol);
                let protocols = self.protocols;
                protocols.is_none_or(|it| protocol.is_some_and(|protocol| it.contains(protocol)))
            }
            Condition::User => self.holds_for(Part::User, values),
            Condition::Domain => self.holds_for(Part::Domain, values),
            Condition::FromUser => self.holds_for(Part::FromUser, values),
            Condition::FromDomain => self.holds_for(Part::FromDomain, values),
            Condition::ToUser => self.holds_for(Part::ToUser, values),
            Condition::ToDomain => self.holds_for(Part::ToDomain, values),
            Condition::Header => {
                let has_any =
                    |it: &[HeaderCondition]| it.iter().any(|header| header.holds(facts.request));
                let headers = self.headers.as_deref();
                headers.is_none_or(|it| facts.arrival.is_some() && has_any(it))
            }
        }
    }

    #[inline]
    fn holds_for(&self, part: Part, values: &Values<'_, '_>) -> bool {
        self.text_set(part)
            .is_none_or(|set| values.text(part).is_some_and(|text| set.contains(text)))
    }

    pub(super) fn text_set(&self, part: Part) -> Option<&TextSet> {
        self.texts.get(part as usize).and_then(Option::as_ref)
    }
}

impl HeaderCondition {
    fn holds(&self, request: &Message<'_>) -> bool {
        match &self.value {
            None => self.name.is_in(request),
            Some(set) => {
                let mut values = self.name.values(request);
                values.any(|value| set.contains(&Text::plain(value)))
            }
        }
    }
}

impl Protocols {
    pub(super) const ALL: Self = Self(u8::MAX);

    pub(super) fn new(protocols: impl IntoIterator<Item = Protocol>) -> Self {
        let bits = protocols.into_iter().map(Self::bit);
        Self(bits.fold(0, |set, bit| set | bit))
    }

    const fn bit(protocol: Protocol) -> u8 {
        1 << protocol as u8
    }

    pub(super) const fn contains(self, protocol: Protocol) -> bool {
        self.0 & Self::bit(protocol) != 0
    }

    pub(super) const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}
