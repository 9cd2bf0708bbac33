import { useEffect, useState } from "preact/hooks";
import { clock, signs, words } from "../lib/format";
import { commits, epoch } from "../lib/state";
import { Icon } from "./common";

/**
 * Chooses an epoch of a relation; null is live. Ticks are the epochs that changed it. What changed a virtual view is known
 * only for epochs that were seen: one steps from epoch to epoch.
 */
export function Scrubber({ name, oldest, at, seen, virtual, choose }: {
  name: string;
  oldest: number;
  at: number | null;
  seen: number[];
  virtual: boolean;
  choose: (epoch: number | null) => void;
}) {
  const latest = epoch.value ?? oldest;
  const [playing, setPlaying] = useState(false);
  const known = commits.value.data ?? [];
  const told = known.filter((commit) => commit.changes?.[name]).map((commit) => commit.epoch);
  const changed = [...new Set([...told, ...seen])].filter((each) => each >= oldest).sort((a, b) => b - a);
  const value = at ?? latest;
  const commit = known.find((each) => each.epoch === value);
  const counts = commit?.changes?.[name];
  const before = virtual ? (value > oldest ? value - 1 : undefined) : changed.find((each) => each < value);
  const after = virtual ? (value < latest ? value + 1 : undefined) : changed.findLast((each) => each > value);
  const step = virtual ? "epoch" : "change";

  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (value >= latest) {
        setPlaying(false);
        choose(null);
      } else choose(after ?? value + 1);
    }, 900);
    return () => clearTimeout(timer);
  }, [playing, value]);

  const play = () => {
    if (playing) setPlaying(false);
    else {
      if (at === null) choose(virtual ? Math.max(oldest, latest - 20) : (changed.at(-1) ?? oldest));
      setPlaying(true);
    }
  };
  const span = Math.max(1, latest - oldest);
  const said = `epoch ${value}${counts ? `, ${words(counts)}` : virtual ? "" : ", no change of this relation"}`;
  return (
    <div class="scrubber" role="group" aria-label="Time travel">
      <div class="scrubber-buttons">
        <button type="button" class="tool" disabled={before === undefined} onClick={() => choose(before!)} aria-label={`Previous ${step}`} title={`Previous ${step}`}>
          <Icon name="back" />
        </button>
        <button type="button" class="tool" onClick={play} aria-label={playing ? "Pause" : "Play the changes"} title={playing ? "Pause" : "Play the changes"}>
          <Icon name={playing ? "pause" : "play"} />
        </button>
        <button type="button" class="tool" disabled={after === undefined} onClick={() => choose(after!)} aria-label={`Next ${step}`} title={`Next ${step}`}>
          <Icon name="next" />
        </button>
      </div>
      <div class="scrubber-track">
        <div class="ticks" aria-hidden="true">
          {changed.map((each) => (
            <span key={each} class={each === value ? "tick on" : "tick"} style={{ left: `${(100 * (each - oldest)) / span}%` }} />
          ))}
        </div>
        <input
          type="range"
          min={oldest}
          max={Math.max(latest, oldest)}
          value={value}
          step={1}
          aria-label="Epoch"
          aria-valuetext={said}
          disabled={latest <= oldest}
          onInput={(event) => {
            setPlaying(false);
            const chosen = Number(event.currentTarget.value);
            choose(chosen >= latest ? null : chosen);
          }}
        />
      </div>
      <div class="scrubber-state">
        <span class="scrubber-epoch">
          epoch <b>{value}</b>
        </span>
        <span class="muted scrubber-time">{clock(commit?.committed_at)}</span>
        <span class="scrubber-signs">{counts ? signs(counts) : ""}</span>
      </div>
      <button
        type="button"
        class={`button live${at === null ? " on" : ""}`}
        aria-pressed={at === null}
        onClick={() => {
          setPlaying(false);
          choose(at === null ? latest : null);
        }}
      >
        <span class="dot" aria-hidden="true" /> Live
      </button>
    </div>
  );
}
