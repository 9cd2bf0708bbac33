import type { Commit, Counts, Value } from "./types";

/** A value as text: exactly what is stored, never rounded. */
export function text(value: Value): string {
  if (value === null) return "NULL";
  if (typeof value === "string") return value;
  if (typeof value === "object") return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each));
  return String(value);
}

const numericTypes = /^(tinyint|smallint|int|integer|bigint|long|short|byte|float|double|real|decimal|numeric)/i;

/** Whether a column of this type is aligned to the right. */
export const isNumeric = (type: string): boolean => numericTypes.test(type);

const grouped = new Intl.NumberFormat("en-US");

/** A number of things: 1,234. */
export const count = (n: number | bigint | null | undefined): string => (n == null ? "–" : grouped.format(n));

/** "1 row", "2 rows". */
export const counted = (n: number, one: string, many = one + "s"): string => `${count(n)} ${n === 1 ? one : many}`;

/** A change in signs: "+3 −1". */
export function signs({ inserted, deleted }: Counts): string {
  if (inserted === null || deleted === null) return "±…";
  const parts = [];
  if (inserted) parts.push(`+${count(inserted)}`);
  if (deleted) parts.push(`−${count(deleted)}`);
  return parts.join(" ") || "±0";
}

/** A change in words: "3 inserted, 1 deleted". */
export function words({ inserted, deleted }: Counts): string {
  if (inserted === null || deleted === null) return "changed";
  const parts = [];
  if (inserted) parts.push(`${count(inserted)} inserted`);
  if (deleted) parts.push(`${count(deleted)} deleted`);
  return parts.join(", ") || "no change";
}

/** A duration: "0.4 ms", "12 ms", "1.24 s", "2 min 3 s". */
export function milliseconds(ms: number | null | undefined): string {
  if (ms == null) return "–";
  if (ms < 1) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function bytes(n: number | null | undefined): string {
  if (n == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = n;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** How long ago: "now", "12 s ago", "3 min ago", "2 h ago", then the date. */
export function ago(iso: string | null | undefined, now: number): string {
  if (!iso) return "–";
  const seconds = Math.round((now - Date.parse(iso)) / 1000);
  if (Number.isNaN(seconds)) return iso;
  if (seconds < 3) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return iso.slice(0, 10);
}

/** A point in time, in the reader's time zone: "14:03:07", with the date when it is not today's. */
export function clock(iso: string | null | undefined, now = Date.now()): string {
  if (!iso) return "–";
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  const of = new Date(now);
  const today = `${of.getFullYear()}-${two(of.getMonth() + 1)}-${two(of.getDate())}`;
  const clockTime = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return day === today ? clockTime : `${day} ${clockTime}`;
}

/** A commit in one sentence, for those who cannot see the graph run. */
export function sentence(commit: Commit): string {
  const changes = Object.entries(commit.changes ?? {});
  const parts = changes.slice(0, 4).map(([name, counts]) => `${name} ${words(counts)}`);
  if (changes.length > 4) parts.push(`and ${changes.length - 4} more`);
  return `Epoch ${commit.epoch}: ${parts.join("; ") || "no rows changed"}.`;
}

/** A warning of a commit as text, whatever shape it has. */
export function warning(value: Value): string {
  if (typeof value === "string") return value;
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const said = value["message"] ?? value["detail"];
    if (typeof said === "string") return said;
  }
  return text(value);
}
