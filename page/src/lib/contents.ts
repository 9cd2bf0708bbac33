import { useEffect, useRef, useState } from "preact/hooks";
import { get, relationPath, type ApiError } from "./api";
import { Copy, fold, marksOf, OutOfStep, type Entry, type Marks } from "./copy";
import { asError, stream } from "./state";
import type { Column, Rows, Update } from "./types";

export const LIMIT = 1000;
const KEPT = 60;

export interface Contents {
  columns: Column[];
  entries: Entry[];
  marks: Marks | null;
  epoch: number | null;
  /** Whether there are more rows than shown. */
  more: boolean;
  /** Changes that arrived while the page was open, latest first. */
  feed: Marks[];
  loading: boolean;
  error: ApiError | null;
}

const nothing: Contents = { columns: [], entries: [], marks: null, epoch: null, more: false, feed: [], loading: true, error: null };

const closed = new Map<string, Promise<unknown>>();

/** Answers about closed epochs never change: asked once. */
export function immutable<T>(path: string): Promise<T> {
  let answer = closed.get(path) as Promise<T> | undefined;
  if (!answer) {
    answer = get<T>(path);
    closed.set(path, answer);
    answer.catch(() => closed.delete(path));
    if (closed.size > KEPT) closed.delete(closed.keys().next().value!);
  }
  return answer;
}

/** The net change that one epoch made to a relation. */
export async function changeOf(name: string, epoch: number): Promise<Marks> {
  const answer = await immutable<{ updates: Update[] }>(relationPath(name, "/changes", { since: epoch - 1, until: epoch }));
  return marksOf(answer.updates, epoch);
}

/** The contents of a relation as they are, followed by its changes; or as they were at an epoch, with that epoch's change. */
export function useContents(name: string, at: number | null, where: string, turn: number): Contents {
  const [live, setLive] = useState<Contents>(nothing);
  const [past, setPast] = useState<Contents>(nothing);
  const isLive = at === null;
  const feed = useRef<Marks[]>([]);

  useEffect(() => {
    setLive(nothing);
    feed.current = [];
  }, [name, where]);

  useEffect(() => {
    if (!isLive) return;
    let stop: (() => void) | null = null;
    let gone = false;
    const copy = new Copy();
    let columns: Column[] = [];
    const show = () =>
      setLive({ columns, entries: copy.rows(), marks: copy.marks, epoch: copy.epoch, more: !copy.entire, feed: feed.current, loading: false, error: null });
    const begin = async () => {
      try {
        const answer = await get<Rows>(relationPath(name, "/rows", { limit: LIMIT, where }));
        if (gone) return;
        columns = answer.columns;
        copy.load(answer.rows, answer.epoch, !answer.more);
        show();
        stop = stream.subscribe(
          name,
          {
            frame: (frame) => {
              try {
                if (!copy.apply(frame)) return;
              } catch (error) {
                if (!(error instanceof OutOfStep)) throw error;
                stop?.();
                void begin();
                return;
              }
              if (copy.marks?.epoch === frame.epoch) feed.current = [copy.marks, ...feed.current].slice(0, KEPT);
              show();
            },
            progress: (epoch) => {
              if (epoch > copy.epoch) {
                copy.epoch = epoch;
                show();
              }
            },
            error: (error) => {
              // No longer kept: read again, and go on from there.
              if (error.code === "gone") void begin();
              else setLive((was) => ({ ...was, error: asError(new Error(error.detail)) }));
            },
          },
          { since: answer.epoch, where },
        );
      } catch (error) {
        if (!gone) setLive((was) => ({ ...was, loading: false, error: asError(error) }));
      }
    };
    void begin();
    return () => {
      gone = true;
      stop?.();
    };
  }, [name, where, isLive, turn]);

  useEffect(() => {
    if (at === null) return;
    let gone = false;
    setPast((was) => ({ ...was, loading: true }));
    const timer = setTimeout(async () => {
      try {
        const [rows, marks] = await Promise.all([
          immutable<Rows>(relationPath(name, "/rows", { as_of: at, limit: LIMIT, where })),
          where ? null : changeOf(name, at).catch(() => null), // the oldest kept epoch has no change before it
        ]);
        if (gone) return;
        const changed = marks && marks.inserted.length + marks.deleted.length > 0 ? marks : null;
        setPast({ columns: rows.columns, entries: fold(rows.rows), marks: changed, epoch: at, more: rows.more ?? false, feed: feed.current, loading: false, error: null });
      } catch (error) {
        if (!gone) setPast((was) => ({ ...was, loading: false, error: asError(error) }));
      }
    }, 90);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [name, at, where, turn]);

  return isLive ? live : past;
}
