// The CloudEvents SDK for JavaScript as a peer of the tests; what it is told: lib/sdk.py.
import { CloudEvent, HTTP } from "cloudevents";
import http from "node:http";

const read = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
};

const messages = {
  binary: (events) => HTTP.binary(events[0]),
  structured: (events) => HTTP.structured(events[0]),
  batch: (events) => ({
    headers: { "content-type": "application/cloudevents-batch+json" },
    body: JSON.stringify(events.map((event) => JSON.parse(HTTP.structured(event).body))),
  }),
};

const send = async (url, mode) => {
  const events = JSON.parse(await read(process.stdin)).map((fields) => new CloudEvent(fields));
  const { headers, body } = messages[mode](events);
  const answer = await fetch(url, { method: "POST", headers, body });
  console.log(JSON.stringify({ status: answer.status, body: await answer.text() }));
};

const receive = () => {
  const server = http.createServer(async (request, response) => {
    const body = (await read(request)).toString();
    const event = HTTP.toEvent({ headers: request.headers, body });
    event.validate();
    console.log(JSON.stringify(event));
    response.writeHead(204).end();
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  process.stdin.on("end", () => process.exit(0)).resume();
};

const [command, ...rest] = process.argv.slice(2);
if (command === "send") await send(...rest);
else receive();
