// Asks a REST server by Node.js's own client, which is strict about interim answers:  node node_client.mjs HOST:PORT MODEL
//
// One connection is kept for all requests. Prints a line an answer: how often the server said that the client may go on,
// the status, the body.
import http from "node:http";

const [server, model] = process.argv.slice(2);
const [host, port] = server.split(":");
const agent = new http.Agent({keepAlive: true, maxSockets: 1});
const body = JSON.stringify({instances: [1, 2.5]});

function ask(name, headers, waits) {
  return new Promise((resolve, reject) => {
    let continues = 0;
    const request = http.request(
      {host, port, agent, method: "POST", path: `/v1/models/${model}:predict`, headers}, (answer) => {
        let text = "";
        answer.on("data", (piece) => (text += piece));
        answer.on("end", () => {
          console.log(name, continues, answer.statusCode, text.replace(/\s+/g, " "));
          resolve();
        });
      });
    request.on("error", reject);
    request.on("continue", () => {
      ++continues;
      if (waits) request.end(body);
    });
    waits ? request.flushHeaders() : request.end(body);
  });
}

const length = {"Content-Length": body.length};
await ask("plain", length, false);
await ask("waits", {...length, Expect: "100-continue"}, true);
await ask("eager", {...length, Expect: "100-continue"}, false);
await ask("chunks", {"Transfer-Encoding": "chunked", Expect: "100-continue"}, true);
agent.destroy();
