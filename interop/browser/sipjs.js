// A phone based on SIP.js. `report` passes its events to the test as text; the test controls it through `phone`.
import { Inviter, Registerer, RegistererState, SessionState, UserAgent } from "sip.js";
import { CONNECTION, CONSTRAINTS, reportMedia } from "./media.js";

const CALL = { sessionDescriptionHandlerOptions: { constraints: CONSTRAINTS } };
let agent;
let registerer;
let call;

globalThis.phone = {
  async start({ server, uri, password }) {
    const address = UserAgent.makeURI(uri);
    agent = new UserAgent({
      uri: address,
      // SIP.js disconnects if its double CRLF gets no response.
      transportOptions: { server, keepAliveInterval: 2, keepAliveDebounce: 5 },
      authorizationUsername: address.user,
      authorizationPassword: password,
      sessionDescriptionHandlerFactoryOptions: { peerConnectionConfiguration: CONNECTION },
      delegate: {
        onConnect: () => report("connected"),
        onDisconnect: () => report("disconnected"),
        onInvite: (invitation) => {
          report(`incoming ${invitation.remoteIdentity.uri}`);
          follow(invitation);
        },
      },
    });
    registerer = new Registerer(agent, { expires: 600 });
    registerer.stateChange.addListener((state) => {
      if (state === RegistererState.Registered) {
        report("registered");
      } else if (state === RegistererState.Unregistered) {
        report("unregistered");
      }
    });
    await agent.start();
    await registerer.register({ requestDelegate: { onReject: refused("registration_failed") } });
  },
  async dial(uri) {
    const inviter = new Inviter(agent, UserAgent.makeURI(uri), CALL);
    follow(inviter);
    await inviter.invite({
      requestDelegate: {
        onProgress: ({ message }) => message.statusCode > 100 && report("ringing"),
        onReject: refused("failed"),
      },
    });
  },
  async accept() {
    await call.accept(CALL);
  },
  async hangUp() {
    if (call.state === SessionState.Established) {
      await call.bye();
    } else if (call instanceof Inviter) {
      await call.cancel();
    } else {
      await call.reject();
    }
  },
  async quit() {
    await registerer.unregister();
  },
};

function refused(word) {
  return ({ message }) => report(`${word} ${message.statusCode} ${message.reasonPhrase}`);
}

// `onReject` reports why an outgoing call failed. An incoming call that is not accepted has no such callback, so its end is reported here.
function follow(session) {
  call = session;
  let established = false;
  session.stateChange.addListener((state) => {
    if (state === SessionState.Established) {
      established = true;
      report("established");
      reportMedia(session.sessionDescriptionHandler.peerConnection);
    } else if (state === SessionState.Terminated && established) {
      report("ended");
    } else if (state === SessionState.Terminated && !(session instanceof Inviter)) {
      report("failed");
    }
  });
}
