//! Records: what a node gives to the control plane without waiting for an answer.

use super::script::{ANYWHERE, Client, PATIENCE, address_of, options, udp_listener, workers};
use sip_runtime::{ControlPlane, Runtime};
use sip_transport::{Input, Node, Output, Time};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Records each datagram, asks about it, and echoes it.
struct Recorder;

impl Node for Recorder {
    type Question = Vec<u8>;
    type Record = Vec<u8>;
    type Control = ();

    fn handle(&mut self, _: Time, input: Input<'_, ()>, output: &mut Output<Vec<u8>, Vec<u8>>) {
        if let Input::Received(message) = input {
            output.ask(message.bytes.to_vec());
            output.record(message.bytes.to_vec());
            output.send(message.flow, |into| into.extend_from_slice(message.bytes));
        }
    }

    fn expire(&mut self, _: Time, _: &mut Output<Vec<u8>, Vec<u8>>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Takes no questions, and as many records as the channel has room for.
#[derive(Clone)]
struct Keeper(SyncSender<(u16, Vec<u8>)>);

impl ControlPlane<Vec<u8>, Vec<u8>> for Keeper {
    fn ask(&mut self, _: u16, question: Vec<u8>) -> Result<(), Vec<u8>> {
        Err(question)
    }

    fn record(&mut self, worker: u16, record: Vec<u8>) -> Result<(), Vec<u8>> {
        self.0.try_send((worker, record)).map_err(|error| {
            let (TrySendError::Full(lost) | TrySendError::Disconnected(lost)) = error;
            lost.1
        })
    }
}

#[test]
fn records_have_room_of_their_own_and_losses_are_counted() {
    let (sender, records) = sync_channel(2);
    let running = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(1), options())
        .expect("bind")
        .start(|_| Recorder, &Keeper(sender))
        .expect("start");
    let client = Client::of(address_of(&running));
    for text in ["a", "b", "c"] {
        assert_eq!(client.asks(text), text);
    }
    let stats = running.stats();
    running.stop();
    for text in ["a", "b"] {
        let (worker, record) = records.recv_timeout(PATIENCE).expect("a record");
        assert_eq!((worker, record.as_slice()), (0, text.as_bytes()));
    }
    let [stats] = &*stats else {
        panic!("one worker");
    };
    let counted = (stats.records.value(), stats.records_dropped.value());
    assert_eq!(counted, (3, 1));
    assert_eq!(stats.questions_dropped.value(), 3);
}
