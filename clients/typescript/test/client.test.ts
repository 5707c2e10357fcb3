import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Client, ServiceError, type Arm } from "../src/client.js";

const address = process.env["ADDRESS"] ?? "";
const key = process.env["KEY"] ?? "";
const arms: Arm[] = [
  { id: "tea", features: [1, 0] },
  { id: "cola", features: [0, 1] },
];
const client = new Client(address, key);

test("decides, rewards and reads", async () => {
  const space = await client.createSpace({ name: "typescript", dim: 2 });
  assert.equal(space.dim, 2);
  const decision = await client.decide("typescript", { task: "berlin", arms, id: "own/id" });
  assert.ok(["tea", "cola"].includes(decision.arm));
  assert.equal((await client.reward("typescript", "own/id", 1)).status, "accepted");
  assert.equal((await client.reward("typescript", "own/id", 1)).status, "repeated");
  const record = await client.decision("typescript", "own/id");
  assert.equal(record.rewards[0]?.value, 1);
});

test("batches have a result or a problem for each", async () => {
  const bad = [{ id: "tea" }] as unknown as Arm[];
  const [first, second] = await client.decideMany("typescript", [
    { task: "rome", arms },
    { task: "rome", arms: bad },
  ]);
  assert.equal(second?.problem?.status, 422);
  const decision = first?.decision?.id ?? "";
  const rewards = [{ decision, value: 0.5 }, { decision: "none", value: 1 }];
  const results = await client.rewardMany("typescript", rewards);
  assert.equal(results[0]?.reward?.status, "accepted");
  assert.match(results[1]?.problem?.type ?? "", /unknown-decision/);
});

test("held decisions count when they are activated", async () => {
  const held = await client.decide("typescript", { task: "rome", arms, held: true });
  assert.equal((await client.activate("typescript", held.id)).status, "accepted");
});

test("a space is frozen, returned to its first version and deleted", async () => {
  await client.createSpace({ name: "old", dim: 2 });
  const frozen = await client.changeSpace("old", { frozen: true });
  assert.equal(frozen.settings["frozen"], true);
  const [first] = await client.versions("old");
  const back = await client.restore("old", first?.name ?? "");
  assert.equal(back.of, first?.name);
  assert.equal((await client.deleteSpace("old")).name, "old");
  await assert.rejects(client.versions("old"), ServiceError);
});

test("problems are errors with their kind", async () => {
  await assert.rejects(client.decide("nowhere", { task: "t", arms }), (error: unknown) => {
    return error instanceof ServiceError && error.kind === "unknown-space";
  });
});

test("a lost answer is asked for again and is the same", async () => {
  let calls = 0;
  const proxy = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const answer = await fetch(address + request.url, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: Buffer.concat(chunks),
    });
    calls += 1;
    if (calls === 1) return void request.socket.destroy();
    response.writeHead(answer.status).end(await answer.text());
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  const port = (proxy.address() as AddressInfo).port;
  const lossy = new Client(`http://127.0.0.1:${port}`, key, { firstPause: 10 });
  const decision = await lossy.decide("typescript", { task: "lost", arms });
  proxy.close();
  proxy.closeAllConnections();
  assert.equal(calls, 2);
  assert.equal(decision.repeated, true);
});
