// The controller's API: the types of crates/tandem-lab/src/controller/view.rs, and the requests.

export type Phase = "idle" | "registering" | "incomplete" | "registered" | "running" | "ending";

/** A distribution, in microseconds. */
export interface Delays {
  count: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

export interface Agent {
  name: string;
  address: string;
  most_phones: number;
  phones: number;
  registered: number;
  in_progress: number;
}

export interface Prepared {
  scenario: string;
  phones: number;
  registered: number;
  unregistered: Record<string, number>;
}

export interface Run {
  run: number;
  scenario: string;
  status: "running" | "ending" | "stopping" | "ended";
  started_ms: number;
  seconds: number;
  scenario_seconds: number;
  scheduled: number;
  commanded: number;
  answered: number;
  succeeded: number;
  failed: number;
  failures: Record<string, number>;
  lost: number;
  in_progress: number;
  command_lateness: Delays;
  command_lateness_above_ms: [number, number][];
  command_confirmed: Delays;
  agent_lateness: Delays;
  session_request_delay: Delays | null;
  /** From a call's command to the first response that shows that the callee was found, including the challenge. */
  response_delay: Delays | null;
  answer_delay: Delays | null;
  trusted: boolean;
  doubts: string[];
  remarks: string[];
}

/** One second of a run. */
export interface Point {
  time: number;
  commanded: number;
  answered: number;
  succeeded: number;
  failed: number;
  lost: number;
  in_progress: number;
  p50_us: number | null;
  p99_us: number | null;
  late_p99_us: number | null;
  late_max_us: number | null;
}

export interface Event {
  at_ms: number;
  what: string;
}

export interface View {
  version: string;
  division: "ranges" | "pods";
  ringing_ms: number;
  talking_ms: number;
  phase: Phase;
  agents: Agent[];
  prepared: Prepared | null;
  run: Run | null;
  points_from: number;
  points: Point[];
  events: Event[];
}

export interface Scenario {
  name: string;
  calls: number;
  phones: number;
  seconds: number;
  peak: number;
  problems: string[];
}

/** An error with reasons that can be shown to the user. */
export class Refused extends Error {
  constructor(readonly reasons: string[]) {
    super(reasons.join("\n"));
  }
}

async function ask(path: string, request?: RequestInit): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(path, request);
  } catch {
    throw new Refused(["The controller does not answer."]);
  }
  const body: unknown = await response.json().catch(() => null);
  if (response.ok) {
    return body;
  }
  const errors = (body as { errors?: string[] } | null)?.errors;
  throw new Refused(errors ?? [`The controller answered ${response.status} ${response.statusText}.`]);
}

const post = (path: string, body: unknown) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

export const scenarios = () => ask("/scenarios") as Promise<Scenario[]>;

export const upload = (file: File) =>
  ask(`/scenarios/${encodeURIComponent(file.name)}`, { method: "PUT", body: file }) as Promise<Scenario>;

export const register = (scenario: string) => post("/register", { scenario });

export const start = (scenario: string, ringing_ms: number, talking_ms: number) =>
  post("/start", { scenario, ringing_ms, talking_ms });

export const stop = () => post("/stop", {});

/** Follows the state, and reconnects after the connection was lost. `undefined`: the controller does not answer. */
export function follow(tell: (view: View | undefined) => void): () => void {
  let source: EventSource;
  let again: number | undefined;
  const open = () => {
    source = new EventSource("/state/stream");
    source.onmessage = (event) => tell(JSON.parse(event.data) as View);
    source.onerror = () => {
      tell(undefined);
      source.close();
      again = window.setTimeout(open, 1000);
    };
  };
  open();
  return () => {
    window.clearTimeout(again);
    source.close();
  };
}
