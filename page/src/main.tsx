import "./fonts.css";
import "./style.css";
import { render } from "preact";
import { App, focusHeading } from "./app";
import { follow } from "./lib/router";
import { start } from "./lib/state";

render(<App />, document.getElementById("app")!);
follow(() => {
  scrollTo(0, 0);
  requestAnimationFrame(focusHeading);
});
void start();
