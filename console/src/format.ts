// Formats numbers for display.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value: number) => whole.format(value);

/** Formats microseconds as milliseconds, with significant digits only. */
export function milliseconds(us: number): string {
  const ms = us / 1000;
  return ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : whole.format(ms);
}

/** Formats seconds as 1:05 or 1:02:03. */
export function time(seconds: number): string {
  const rounded = Math.max(0, Math.round(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(rounded / 3600), Math.floor(rounded / 60) % 60];
  const rest = `${two(rounded % 60)}`;
  return hours > 0 ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

export const clock = (ms: number) => new Date(ms).toLocaleTimeString("en-GB");

/** Adds a plural s where needed: 1 call, 2 calls. */
export const several = (value: number, what: string) => `${count(value)} ${what}${value === 1 ? "" : "s"}`;
