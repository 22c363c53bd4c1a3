//! The caller's side of calls: INVITE, credentials when challenged, ACK, BYE.

use super::dialog::Dialog;
use super::figures::{Delay, Kind};
use super::messages::{Branch, Heading, push_uri};
use super::phones::{Alarm, Out, Phones, Stage, Unit};
use crate::credentials::{Nonce, is_stale};
use sip_message::{Message, Method};
use sip_transaction::{ClientOptions, Kind as TransactionKind};
use sip_transport::{Flow, Time};

impl Phones {
    /// Starts a call.
    pub(super) fn call(&mut self, now: Time, due: Time, phone: u32, callee: u32, output: Out<'_>) {
        let number = self.next_number();
        self.figures.ends_mut(Kind::Call).attempted += 1;
        let has_credentials = self.remember(phone, true);
        let unit = Unit {
            phone,
            due,
            asked: due,
            cseq: 0,
            stage: Stage::Invited {
                callee,
                has_credentials,
                heard_100: false,
                rang: false,
            },
        };
        self.units.insert(number, unit);
        self.invite(now, number, output);
    }

    fn invite(&mut self, now: Time, number: u64, output: Out<'_>) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let Stage::Invited { callee, .. } = unit.stage else {
            return;
        };
        unit.cseq += 1;
        let (phone, cseq) = (unit.phone, unit.cseq);
        self.shared.invited.note(number, unit.asked);
        let Ok(client) = self.transactions.reserve_client(number) else {
            return self.fail(number, &"too many transactions");
        };
        let place = (phone - self.first) as usize;
        let port = &self.ports[place % self.ports.len()];
        let subscribers = &self.plan.subscribers;
        let mut uri = Vec::with_capacity(64);
        let remote = if let Some(server) = self.plan.server {
            push_uri(&mut uri, subscribers, callee);
            server
        } else {
            let Some(port) = self.shared.port_of(callee) else {
                return self.fail(number, &"the callee is no phone of this run");
            };
            port.write_contact(subscribers, callee, &mut uri);
            port.address
        };
        let heading = Heading {
            method: Method::Invite,
            uri: &uri,
            port,
            phone,
            number,
            cseq,
        };
        let nonce = &mut self.memories[place].proxy_nonce;
        let write = |into: &mut Vec<u8>| {
            let nonce = nonce.as_deref_mut();
            heading.invite(subscribers, Branch::Client(client), (callee, nonce), into);
        };
        let flow = Flow::to(port.listener, remote);
        let options = ClientOptions::new(TransactionKind::Invite, flow, port.is_reliable);
        self.transactions
            .start_client(now, client, &options, output, write);
    }

    /// Handles a response to the INVITE or the BYE of a call.
    pub(super) fn call_answered(
        &mut self,
        now: Time,
        number: u64,
        response: &Message<'_>,
        output: Out<'_>,
    ) {
        let is_of_invite = response
            .cseq()
            .is_some_and(|cseq| cseq.method == Method::Invite);
        let Some(unit) = self.units.get(&number) else {
            return;
        };
        match (&unit.stage, response.status()) {
            (Stage::Invited { .. }, ..200) => self.call_proceeds(now, number, response.status()),
            (Stage::Invited { .. }, 200..300) => self.accepted(now, number, response, output),
            (
                Stage::Invited {
                    has_credentials, ..
                },
                status @ (401 | 407),
            ) => {
                let challenged = *has_credentials && !is_stale(response);
                if challenged {
                    return self.fail(number, &status);
                }
                self.show_credentials(now, number, response, output);
            }
            // The callee has not received the ACK.
            (Stage::Up { .. }, 200..300) if is_of_invite => {
                self.figures.retransmissions_received += 1;
                self.acknowledge(number, output);
            }
            (Stage::Up { leaving: true, .. }, 200..300) => {
                let delay = now.saturating_since(unit.asked);
                self.figures.record(Delay::SessionDisconnect, delay);
                self.succeed(now, number);
            }
            (_, ..200) => {}
            (Stage::Up { leaving: true, .. }, status) => {
                self.fail(number, &format_args!("{status} to BYE"));
            }
            (_, status) => self.fail(number, &status),
        }
    }

    fn call_proceeds(&mut self, now: Time, number: u64, status: u16) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let delay = now.saturating_since(unit.asked);
        let since_due = now.saturating_since(unit.due);
        let Stage::Invited {
            heard_100, rang, ..
        } = &mut unit.stage
        else {
            return;
        };
        let (known, measured) = if status == 100 {
            (heard_100, Delay::Trying)
        } else {
            (rang, Delay::SessionRequest)
        };
        if !std::mem::replace(known, true) {
            self.figures.record(measured, delay);
            if measured == Delay::SessionRequest {
                self.figures.record(Delay::Response, since_due);
            }
        }
    }

    fn show_credentials(
        &mut self,
        now: Time,
        number: u64,
        response: &Message<'_>,
        output: Out<'_>,
    ) {
        let status = response.status();
        let Some(nonce) = Nonce::of(response, status == 407) else {
            return self.fail(number, &format_args!("{status} without a challenge"));
        };
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        if let Stage::Invited {
            has_credentials, ..
        } = &mut unit.stage
        {
            *has_credentials = true;
        }
        let delay = now.saturating_since(unit.asked);
        unit.asked = now;
        let place = (unit.phone - self.first) as usize;
        self.figures.record(Delay::Challenge, delay);
        self.memories[place].proxy_nonce = Some(Box::new(nonce));
        self.invite(now, number, output);
    }

    fn accepted(&mut self, now: Time, number: u64, response: &Message<'_>, output: Out<'_>) {
        let Some(unit) = self.units.get(&number) else {
            return;
        };
        let Stage::Invited { rang, .. } = unit.stage else {
            return;
        };
        let (due, asked) = (unit.due, unit.asked);
        let dialog = Dialog::of(response, self.port_of(unit.phone), self.plan.server);
        let Some(dialog) = dialog else {
            return self.fail(number, &"2xx without a contact that can be reached");
        };
        if !rang {
            self.figures
                .record(Delay::SessionRequest, now.saturating_since(asked));
            self.figures
                .record(Delay::Response, now.saturating_since(due));
        }
        self.figures
            .record(Delay::Answer, now.saturating_since(due));
        if let Some(since) = self.shared.answered.of(number) {
            self.figures
                .record(Delay::AnswerForwarding, now.saturating_since(since));
        }
        if let Some(unit) = self.units.get_mut(&number) {
            unit.stage = Stage::Up {
                dialog: Box::new(dialog),
                leaving: false,
            };
        }
        self.acknowledge(number, output);
        let talking = self.plan.call.talking;
        if talking.is_zero() {
            self.hang_up(now, number, output);
        } else {
            self.wheel.arm(now + talking, Alarm::HangUp(number));
        }
    }

    fn acknowledge(&self, number: u64, output: Out<'_>) {
        let Some(unit) = self.units.get(&number) else {
            return;
        };
        let Stage::Up { dialog, leaving } = &unit.stage else {
            return;
        };
        let heading = Heading {
            method: Method::Ack,
            uri: &dialog.target,
            port: self.port_of(unit.phone),
            phone: unit.phone,
            number,
            // The BYE has increased CSeq by one.
            cseq: unit.cseq - u32::from(*leaving),
        };
        output.send(dialog.flow, |into| {
            let branch = Branch::Acknowledgement;
            heading.in_dialog(&self.plan.subscribers, branch, dialog, into);
        });
    }

    /// Sends the BYE.
    pub(super) fn hang_up(&mut self, now: Time, number: u64, output: Out<'_>) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let Stage::Up { dialog, leaving } = &mut unit.stage else {
            return;
        };
        if *leaving {
            return;
        }
        let Ok(client) = self.transactions.reserve_client(number) else {
            return self.fail(number, &"too many transactions");
        };
        *leaving = true;
        unit.cseq += 1;
        unit.asked = now;
        let place = (unit.phone - self.first) as usize;
        let port = &self.ports[place % self.ports.len()];
        let heading = Heading {
            method: Method::Bye,
            uri: &dialog.target,
            port,
            phone: unit.phone,
            number,
            cseq: unit.cseq,
        };
        let subscribers = &self.plan.subscribers;
        let write = |into: &mut Vec<u8>| {
            heading.in_dialog(subscribers, Branch::Client(client), dialog, into);
        };
        let kind = TransactionKind::NonInvite;
        let options = ClientOptions::new(kind, dialog.flow, port.is_reliable);
        self.transactions
            .start_client(now, client, &options, output, write);
    }
}
