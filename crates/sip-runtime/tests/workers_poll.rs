//! Workers on poll(2).

mod workers;

const EVENT_LOOP: sip_runtime::EventLoopKind = sip_runtime::EventLoopKind::Poll;
