import { forceCenter, forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import { useMemo, useRef } from "preact/hooks";
import { shown, type Entry, type Marks } from "../lib/copy";
import { counted, text } from "../lib/format";
import type { Column } from "../lib/types";
import { Empty } from "./common";

const MOST = 400;
const [WIDTH, HEIGHT] = [760, 460];

interface Spot {
  id: string;
  x: number;
  y: number;
}

/** Rows as edges between the values of two columns. Nodes keep their places from epoch to epoch. */
export function EdgeGraph({ columns, entries, marks, ends, name }: {
  columns: Column[];
  entries: Entry[];
  marks: Marks | null;
  ends: [number, number];
  name: string;
}) {
  const places = useRef(new Map<string, Spot>());
  const lines = shown(entries, marks);
  const drawn = lines.slice(0, MOST).map((line) => ({
    key: line.mark + line.key,
    from: text(line.row[ends[0]] ?? null),
    to: text(line.row[ends[1]] ?? null),
    mark: line.mark,
    more: line.row.filter((_, at) => at !== ends[0] && at !== ends[1]).map(text).join(", "),
  }));
  const signature = drawn.map(({ key }) => key).join("\n");
  const spots = useMemo(() => {
    const names = [...new Set(drawn.flatMap(({ from, to }) => [from, to]))];
    const old = places.current;
    const known = names.filter((each) => old.has(each)).length;
    const nodes = names.map((id, at) => {
      const angle = (2 * Math.PI * at) / names.length;
      const start = old.get(id) ?? { x: Math.cos(angle) * 160, y: Math.sin(angle) * 120 };
      return { id, x: start.x, y: start.y };
    });
    const links = drawn.filter(({ from, to }) => from !== to).map(({ from, to }) => ({ source: from, target: to }));
    const simulation = forceSimulation(nodes)
      .force("link", forceLink<Spot, { source: string | Spot; target: string | Spot }>(links).id(({ id }) => id).distance(110).strength(0.12))
      .force("charge", forceManyBody().strength(-520))
      .force("collide", forceCollide(34))
      .force("x", forceX(0).strength(0.09))
      .force("y", forceY(0).strength(0.16))
      .force("center", forceCenter(0, 0))
      .stop();
    // Mostly known places: a gentle correction instead of a new picture.
    if (known > names.length / 2) simulation.alpha(0.15);
    simulation.tick(known === names.length ? 0 : known > names.length / 2 ? 60 : 260);
    places.current = new Map(nodes.map((node) => [node.id, node]));
    return places.current;
  }, [signature]);

  if (drawn.length === 0) return <Empty title="No edges">There are no rows at this epoch.</Empty>;
  const all = [...spots.values()];
  const [left, right] = [Math.min(...all.map(({ x }) => x)) - 60, Math.max(...all.map(({ x }) => x)) + 60];
  const [top, bottom] = [Math.min(...all.map(({ y }) => y)) - 34, Math.max(...all.map(({ y }) => y)) + 34];
  const width = Math.max(right - left, WIDTH / 2);
  const height = Math.max(bottom - top, HEIGHT / 2);
  const box = `${(left + right) / 2 - width / 2} ${(top + bottom) / 2 - height / 2} ${width} ${height}`;
  const both = new Set(drawn.map(({ from, to }) => JSON.stringify([from, to])));
  return (
    <figure class="edges">
      <svg viewBox={box} class="edges-svg" style={{ maxWidth: `${width * 1.25}px` }} role="img" aria-label={`${name}: ${counted(drawn.length, "edge")} between ${counted(all.length, "node")}. The contents tab has the same rows as a table.`}>
        <defs>
          {["", "+", "−"].map((mark) => (
            <marker key={mark} id={`head${mark}`} viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10" orient="auto">
              <path d="M0.5,0.8L7,4L0.5,7.2z" class={`head ${mark === "+" ? "inserted" : mark === "−" ? "deleted" : ""}`} />
            </marker>
          ))}
        </defs>
        {drawn.map(({ key, from, to, mark, more }) => {
          const [a, b] = [spots.get(from), spots.get(to)];
          if (!a || !b) return null;
          const style = mark === "+" ? "inserted" : mark === "−" ? "deleted" : "";
          const title = `${from} → ${to}${more ? ` (${more})` : ""}${mark ? `, ${mark === "+" ? "inserted" : "deleted"}` : ""}`;
          if (from === to)
            return (
              <path key={key} class={`link ${style}`} d={`M${a.x - 8},${a.y - 14}c-14,-30 30,-30 16,0`} marker-end={`url(#head${mark})`}>
                <title>{title}</title>
              </path>
            );
          const [dx, dy] = [b.x - a.x, b.y - a.y];
          const length = Math.hypot(dx, dy) || 1;
          const bend = both.has(JSON.stringify([to, from])) ? 16 : 5;
          const [mx, my] = [(a.x + b.x) / 2 - (dy / length) * bend, (a.y + b.y) / 2 + (dx / length) * bend];
          const trim = (x: number, y: number, fx: number, fy: number) => {
            const distance = Math.hypot(x - fx, y - fy) || 1;
            const half = Math.min(19 / Math.max(Math.abs(x - fx) / distance, 0.42), 13 / Math.max(Math.abs(y - fy) / distance, 0.28));
            return [x + ((fx - x) / distance) * half, y + ((fy - y) / distance) * half] as const;
          };
          const [sx, sy] = trim(a.x, a.y, mx, my);
          const [ex, ey] = trim(b.x, b.y, mx, my);
          return (
            <g key={key}>
              <path class={`link ${style}`} d={`M${sx},${sy}Q${mx},${my} ${ex},${ey}`} marker-end={`url(#head${mark})`}>
                <title>{title}</title>
              </path>
              {mark ? (
                <text class={`link-mark ${style}`} x={mx} y={my + 4} text-anchor="middle">
                  {mark}
                </text>
              ) : null}
            </g>
          );
        })}
        {all.map(({ id, x, y }) => (
          <g key={id} transform={`translate(${x},${y})`} class="spot">
            <rect x={-Math.max(18, id.length * 4 + 9)} y="-12" width={2 * Math.max(18, id.length * 4 + 9)} height="24" rx="12" />
            <text text-anchor="middle" y="4.5">
              {id.length > 18 ? id.slice(0, 17) + "…" : id}
            </text>
          </g>
        ))}
      </svg>
      <figcaption class="muted">
        {columns[ends[0]]!.name} → {columns[ends[1]]!.name}
        {lines.length > MOST ? `; the first ${MOST} of ${counted(lines.length, "edge")}` : ""}
        {marks ? (
          <>
            {" · "}
            <span class="ins">+ inserted</span> and <span class="del">− deleted</span> by epoch {marks.epoch}
          </>
        ) : null}
      </figcaption>
    </figure>
  );
}
