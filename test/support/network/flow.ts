import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const packets = fileURLToPath(new URL('packets.py', import.meta.url))
/** Permitted relative difference between the measured rate and the guest's configured rate. */
const tolerance = 0.05
const timeoutMs = 180_000

/** Condition of a measurement: at least `right` of the last `of` time windows have the expected rate. */
interface Windows {
  readonly right: number
  readonly of: number
}
const one: Windows = { right: 1, of: 1 }
/** Other work of the machine may falsify one of four time windows. A wrong limit affects all windows. */
const steady: Windows = { right: 3, of: 4 }

export type Way = 'down' | 'up'

export interface FlowOptions {
  /** Command prefix that runs a program at the near end, such as `['ip', 'netns', 'exec', 'NAME']`. */
  readonly at: readonly string[]
  /** Address at which `serveFlows` listens. */
  readonly host: string
  readonly port: number
  /** Direction of the data: `down` is from the far end to the near end. */
  readonly way: Way
  /** Length of a time window in seconds. By default 0.5. */
  readonly seconds?: number
}

/** Starts the program to which flows connect. It runs until it is killed. Resolves when the program listens. */
export async function serveFlows(at: readonly string[], port: number): Promise<ChildProcess> {
  const server = python(at, 'flows', String(port))
  await once(server.stdout!, 'data')
  return server
}

/**
 * A TCP connection at full speed. The kernel counts the payload that arrives. A program that gets no CPU time reads
 * late, but the count stays right.
 */
export class Flow {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>
  /** Mbit/s of each time window so far. */
  readonly seen: number[] = []

  constructor({ at, host, port, way, seconds = 0.5 }: FlowOptions) {
    this.#child = python(at, 'flow', host, String(port), way, String(seconds))
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]()
  }

  /**
   * Waits until `right` of the last `of` time windows have the expected rate. By default one window is enough.
   * @throws after the deadline, with the measured values
   */
  async waitForRate(isRight: (mbps: number) => boolean, what: string, { right, of }: Windows = one): Promise<void> {
    const deadline = setTimeout(() => this.end(), timeoutMs) // ends the wait if nothing arrives
    const before = this.seen.length
    try {
      for (;;) {
        const { done, value } = await this.#lines.next()
        if (done) throw new Error(`${what}: ${this.seen.join(' ')} Mbit/s, then no more`)
        this.seen.push(Number(value))
        if (this.seen.slice(before).slice(-of).filter(isRight).length >= right) return
      }
    } finally {
      clearTimeout(deadline)
    }
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}

export const isAbout = (mbps: number) => (seen: number) => Math.abs(seen - mbps) <= mbps * tolerance

/** @throws unless the rate of three of four time windows is `mbps`, within 5 % */
export function expectRate(options: FlowOptions, mbps: number, when = ''): Promise<void> {
  return expectFlow(options, isAbout(mbps), `${mbps} Mbit/s ${options.way} ${when}`.trim(), steady)
}

/** @throws unless the rate is higher than `mbps` in a time window */
export function expectMore(options: FlowOptions, mbps: number): Promise<void> {
  return expectFlow(options, (seen) => seen > mbps, `more than ${mbps} Mbit/s ${options.way}`)
}

async function expectFlow(
  options: FlowOptions,
  isRight: (mbps: number) => boolean,
  what: string,
  windows?: Windows,
): Promise<void> {
  const flow = new Flow(options)
  try {
    await flow.waitForRate(isRight, what, windows)
  } finally {
    flow.end()
  }
}

function python(at: readonly string[], ...args: string[]): ChildProcess {
  const [program = '', ...rest] = [...at, '/usr/bin/python3', packets, ...args]
  return spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
}
