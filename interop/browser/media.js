// Detects incoming audio, for both libraries.

// Polling interval in milliseconds, and the number of packets that count as audio.
const INTERVAL = 200;
const ENOUGH = 10;

// Reports `media` as soon as a connection has received audio.
export function reportMedia(connection) {
  const timer = setInterval(async () => {
    if (connection.connectionState === "closed") {
      clearInterval(timer);
      return;
    }
    const stats = await connection.getStats();
    for (const entry of stats.values()) {
      if (entry.type === "inbound-rtp" && entry.packetsReceived >= ENOUGH) {
        clearInterval(timer);
        report("media");
        return;
      }
    }
  }, INTERVAL);
}

// No STUN or TURN servers: both phones run on this machine.
export const CONNECTION = { iceServers: [] };
export const CONSTRAINTS = { audio: true, video: false };
