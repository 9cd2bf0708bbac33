// Follows one shape with the npm client. The first argument is JSON: the options of ShapeStream.
// Prints one line of JSON whenever the copy is up to date: its rows, their keys, the offset and the handle.
import { Shape, ShapeStream } from "@electric-sql/client";

const options = JSON.parse(process.argv[2]);
const plain = (_, value) => (typeof value === "bigint" ? (Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`) : value);
const say = (line) => process.stdout.write(JSON.stringify(line, plain) + "\n");

const stream = new ShapeStream({
  backoffOptions: { initialDelay: 50, maxDelay: 200, multiplier: 1.5 },
  onError: (error) => say({ error: error.status ?? error.name, text: error.text ?? error.message, json: error.json }),
  ...options,
});
const shape = new Shape(stream);
let refetches = 0;
let operations = [];
stream.subscribe((messages) => {
  for (const message of messages) {
    if (message.headers.operation) operations.push([message.headers.operation, message.key, message.value, message.old_value ?? null]);
    if (message.headers.control === "must-refetch") refetches += 1;
    if (message.headers.control === "up-to-date") {
      const value = shape.currentValue;
      const state = { rows: [...value.values()], keys: [...value.keys()], offset: stream.lastOffset, handle: stream.shapeHandle };
      say({ ...state, refetches, operations });
      operations = [];
    }
  }
});

// A line on stdin is a subset to load into the copy.
let rest = "";
process.stdin.on("data", async (data) => {
  rest += data;
  const lines = rest.split("\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    await shape.requestSnapshot(JSON.parse(line));
    const value = shape.currentValue;
    say({ rows: [...value.values()], keys: [...value.keys()], offset: stream.lastOffset, subset: true });
  }
});
process.stdin.on("end", () => process.exit(0));
