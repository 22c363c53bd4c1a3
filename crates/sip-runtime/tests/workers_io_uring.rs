//! Workers on `io_uring`(7).

mod workers;

const EVENT_LOOP: sip_runtime::EventLoopKind = sip_runtime::EventLoopKind::IoUring;
