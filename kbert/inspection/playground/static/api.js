/** What the page asks the program that serves it. Every address is relative to the page; there is no other host. */

async function read(response) {
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    // not JSON: said below
  }
  if (response.ok && answer !== null) return answer;
  throw new Error(answer?.error ?? `Expected an answer. Received: status ${response.status} without an explanation.`);
}

async function request(address, options) {
  try {
    return await read(await fetch(address, { cache: "no-store", ...options }));
  } catch (error) {
    if (error instanceof TypeError)
      throw new Error("The program that serves this page does not answer. Does it still run?");
    throw error;
  }
}

/** {"models": [...], "vocabulary_default": bool} */
export const listModels = () => request("api/models");

/** The answer of one view; throws an Error whose message is meant for the reader. */
export const ask = (view, body, signal) =>
  request(`api/${view}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
