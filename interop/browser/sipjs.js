// A telephone made of SIP.js. What happens to it is reported as words; what it is to do, the test says by `phone`.
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
      // It hangs up where its double CRLF is not answered.
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

// A call of ours that is refused says why (`onReject`); one that comes and is not taken has nobody to say it.
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
