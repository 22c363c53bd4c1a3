// A phone based on JsSIP. `report` passes its events to the test as text; the test controls it through `phone`.
import JsSIP from "jssip";
import { CONNECTION, CONSTRAINTS, reportMedia } from "./media.js";

const CALL = { mediaConstraints: CONSTRAINTS, pcConfig: CONNECTION };
// The library's log goes to the console, for the output of a failed test.
JsSIP.debug.enable("JsSIP:*");

let agent;
let call;

globalThis.phone = {
  start({ server, uri, password }) {
    agent = new JsSIP.UA({
      sockets: [new JsSIP.WebSocketInterface(server)],
      uri,
      password,
      register_expires: 600,
    });
    agent.on("connected", () => report("connected"));
    agent.on("disconnected", () => report("disconnected"));
    agent.on("registered", () => report("registered"));
    agent.on("unregistered", () => report("unregistered"));
    agent.on("registrationFailed", ({ cause }) => report(`registration_failed ${cause}`));
    agent.on("newRTCSession", ({ originator, session }) => follow(originator, session));
    agent.start();
  },
  dial(uri) {
    agent.call(uri, CALL);
  },
  accept() {
    call.answer(CALL);
  },
  hangUp() {
    call.terminate();
  },
  quit() {
    agent.stop();
  },
};

function follow(originator, session) {
  call = session;
  session.on("peerconnection", ({ peerconnection }) => reportMedia(peerconnection));
  session.on("progress", () => originator === "local" && report("ringing"));
  session.on("confirmed", () => report("established"));
  session.on("ended", ({ cause }) => report(`ended ${cause}`));
  session.on("failed", ({ cause }) => report(`failed ${cause}`));
  if (originator === "local") {
    reportMedia(session.connection);
  } else {
    report(`incoming ${session.remote_identity.uri}`);
  }
}
