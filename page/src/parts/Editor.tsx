import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../lib/types";

const words =
  "activate add after all alter analyze and any as asc assertion begin between by cascade case cast check column commit create cross cube current " +
  "datalog deactivate default deferred delete delta demand desc describe detached disable distinct do drop each else enable end epoch every except " +
  "exists explain false filter first following for foreign from full function group grouping having if ilike immediate in inner insert inserted " +
  "deleted updated intersect interval into is join key last lateral left like limit location materialized merge natural nervous not null nulls of " +
  "offset on options or order outer over partition preceding preview primary priority qualify range recursive references refresh rename replace " +
  "retry right rlike rollback rollup row rows rule rules select semi anti set sets show snapshot strict subscribe suspend table tables then " +
  "timestamp to true truncate unbounded union unique unpivot pivot update using values verify version view views violation abort warn webhook when " +
  "where window with old new commits assertions firings";
const types =
  "array bigint binary boolean byte char date decimal double float int integer long map numeric real short smallint string struct timestamp " +
  "timestamp_ntz tinyint varchar";

const dialect = SQLDialect.define({
  keywords: words,
  types,
  builtin: "count sum avg min max coalesce concat lower upper substring round abs row_number rank dense_rank lag lead first_value last_value explode now current_date date_trunc",
  backslashEscapes: true,
  doubleQuotedStrings: true,
  identifierQuotes: "`",
  operatorChars: "*+-%<>!=&|~^/",
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "transparent", color: "var(--text)", minHeight: "9.5em", maxHeight: "45vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", border: "none", paddingLeft: "4px" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)", borderRadius: "6px", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12.5px", maxHeight: "15em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px", color: "var(--text)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75", fontStyle: "normal", marginLeft: "1em" },
  ".cm-tooltip-lint": { padding: "2px" },
});

export interface EditorProps {
  /** The text to begin with, and to take over whenever the turn changes; else what is typed counts. */
  text: string;
  turn: number;
  change: (text: string) => void;
  run: () => void;
  preview: () => void;
  /** Columns by the name of their relation, for completion. */
  schema: Record<string, string[]>;
  place: Problem["place"];
  message: string;
}

export default function Editor({ text, turn, change, run, preview, schema, place, message }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment());
  const latest = useRef({ change, run, preview });
  latest.current = { change, run, preview };
  const support = () => sql({ dialect, schema, upperCaseKeywords: true });

  useEffect(() => {
    const editor = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false }),
          highlightActiveLine(),
          EditorView.lineWrapping,
          syntaxHighlighting(colours),
          look,
          language.current.of(support()),
          placeholder("INSERT INTO …, CREATE MATERIALIZED VIEW …, SELECT …"),
          EditorView.contentAttributes.of({ "aria-label": "SQL statements", "aria-describedby": "editor-help" }),
          Prec.highest(
            keymap.of([
              { key: "Mod-Shift-Enter", run: () => (latest.current.preview(), true) },
              { key: "Mod-Enter", run: () => (latest.current.run(), true) },
              { key: "Tab", run: acceptCompletion }, // only while a completion is offered; else Tab leaves the editor
            ]),
          ),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.change(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (editor && editor.state.doc.toString() !== text)
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text }, selection: { anchor: text.length } });
  }, [turn]);

  const names = JSON.stringify(schema);
  useEffect(() => {
    view.current?.dispatch({ effects: language.current.reconfigure(support()) });
  }, [names]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const document = editor.state.doc;
    if (!place || place.line < 1 || place.line > document.lines) {
      editor.dispatch(setDiagnostics(editor.state, []));
      return;
    }
    const line = document.line(place.line);
    const from = Math.min(line.to, line.from + Math.max(0, place.column - 1));
    const word = /^[\w.`]+/.exec(line.text.slice(from - line.from))?.[0].length ?? 1;
    const to = Math.min(line.to, from + word);
    editor.dispatch(setDiagnostics(editor.state, [{ from, to: Math.max(to, from), severity: "error", message }]));
  }, [place, message]);

  return <div class="editor" ref={host} />;
}
