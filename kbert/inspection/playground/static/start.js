/** The page on its own; TensorBoard calls `render` itself. */

import { render } from "./index.js";

render();
