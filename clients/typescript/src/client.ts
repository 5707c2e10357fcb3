/** A small client of the cobandits service; its types are made from the OpenAPI document. */

import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type Arm = { id: string } & Record<string, unknown>;
export type Decide = Schemas["DecideOne"];
export type Decision = Schemas["DecisionReply"];
export type DecisionResult = Schemas["DecisionResult"];
export type Reward = Schemas["RewardInBatch"];
export type RewardReply = Schemas["RewardReply"];
export type RewardResult = Schemas["RewardResult"];
export type Problem = Schemas["ProblemDocument"];
export type CreateSpace = Schemas["CreateSpace"];
export type Space = Schemas["SpaceReply"];
export type Version = Schemas["VersionReply"];

/** The service refused a request; `kind` is the last part of the problem's type. */
export class ServiceError extends Error {
  readonly kind: string;

  constructor(readonly problem: Problem) {
    super(`${problem.title}: ${problem.detail}`);
    this.name = "ServiceError";
    this.kind = problem.type.slice(problem.type.lastIndexOf("/") + 1);
  }
}

export interface Options {
  /** Attempts in total, when the service cannot be reached or cannot answer. */
  attempts?: number;
  /** Milliseconds of the first and of the longest pause; they double in between. */
  firstPause?: number;
  longestPause?: number;
  /** Milliseconds to wait for one answer. */
  timeout?: number;
}

const AGAIN = new Set([429, 502, 503, 504, 507]);

/**
 * Decides and rewards. It tries again when the service is away, and nothing happens twice: each
 * decision has an id, and a reward counts once.
 */
export class Client {
  private readonly options: Required<Options>;

  constructor(
    private readonly address: string,
    private readonly key: string,
    options: Options = {},
  ) {
    this.options = { attempts: 6, firstPause: 50, longestPause: 5000, timeout: 10000, ...options };
  }

  createSpace(space: CreateSpace): Promise<Space> {
    return this.ask("POST", ["spaces"], space);
  }

  changeSpace(space: string, settings: Schemas["ChangeSpace"]): Promise<Space> {
    return this.ask("PATCH", ["spaces", space], settings);
  }

  /** Deletes a space with all its events, for ever. */
  deleteSpace(space: string): Promise<Schemas["DeletedReply"]> {
    return this.ask("DELETE", ["spaces", space]);
  }

  async versions(space: string): Promise<Version[]> {
    const path = ["spaces", space, "versions"];
    return (await this.ask<Schemas["VersionReplies"]>("GET", path)).versions;
  }

  /** Returns to a version, by its name or its label. */
  restore(space: string, version: string): Promise<Version> {
    return this.ask("POST", ["spaces", space, "versions", version, "restore"]);
  }

  decide(space: string, asked: Decide): Promise<Decision> {
    const id = asked.id ?? crypto.randomUUID();
    return this.ask("POST", ["spaces", space, "decisions"], { ...asked, id });
  }

  async decideMany(space: string, decisions: Decide[]): Promise<DecisionResult[]> {
    const path = ["spaces", space, "decisions:batch"];
    const asked = decisions.map((one) => ({ ...one, id: one.id ?? crypto.randomUUID() }));
    return (await this.ask<Schemas["DecisionResults"]>("POST", path, { decisions: asked })).results;
  }

  reward(space: string, decision: string, value: number, key?: string): Promise<RewardReply> {
    const path = ["spaces", space, "decisions", decision, "rewards"];
    return this.ask("POST", path, { value, key: key ?? crypto.randomUUID() });
  }

  async rewardMany(space: string, rewards: Reward[]): Promise<RewardResult[]> {
    const path = ["spaces", space, "rewards:batch"];
    return (await this.ask<Schemas["RewardResults"]>("POST", path, { rewards })).results;
  }

  activate(space: string, decision: string): Promise<Schemas["ActivationReply"]> {
    return this.ask("POST", ["spaces", space, "decisions", decision, "activate"]);
  }

  decision(space: string, decision: string): Promise<Schemas["DecisionRecord"]> {
    return this.ask("GET", ["spaces", space, "decisions", decision]);
  }

  private async ask<Answer>(method: string, parts: string[], message?: unknown): Promise<Answer> {
    const path = parts.map((part) => encodeURIComponent(part).replaceAll("%3A", ":")).join("/");
    for (let attempt = 1; ; attempt++) {
      let pause = Math.min(this.options.longestPause, this.options.firstPause * 2 ** (attempt - 1));
      try {
        const response = await fetch(`${this.address}/v1/${path}`, {
          method,
          headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
          body: message === undefined ? undefined : JSON.stringify(message),
          signal: AbortSignal.timeout(this.options.timeout),
        });
        if (response.ok) return (await response.json()) as Answer;
        if (!AGAIN.has(response.status) || attempt >= this.options.attempts) {
          throw new ServiceError(await problemOf(response));
        }
        pause = Math.max(pause, 1000 * Number(response.headers.get("retry-after") ?? 0));
      } catch (error) {
        if (error instanceof ServiceError || attempt >= this.options.attempts) throw error;
      }
      await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random() / 2)));
    }
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    return JSON.parse(text) as Problem;
  } catch {
    const title = `Status ${response.status}`;
    return { type: "/problems/unknown", title, status: response.status, detail: text.slice(0, 200) };
  }
}
