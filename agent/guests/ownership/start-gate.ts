import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { writeFileAtomic } from '../../../shared/files.js'

const pollMs = 250

/**
 * Keeps guests stopped after a boot of the host until a gateway has compared their owners. While the host was down, its
 * guests may have been restored on other hosts. If no gateway answers in time, the guests are started.
 */
export class StartGate {
  #untilMs: number

  /**
   * @param waitMs time in ms for which the host waits for a gateway. 0: it does not wait
   * @param record records that a gateway has compared the owners since the present boot
   */
  constructor(
    waitMs: number,
    private readonly record: () => Promise<void> = () => Promise.resolve(),
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#untilMs = now() + waitMs
  }

  /** Time in ms for which guests must not be started yet. 0: they may be started. */
  get leftMs(): number {
    return Math.max(0, this.#untilMs - this.now())
  }

  /** Waits until guests may be started. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.leftMs > 0) await delay(Math.min(this.leftMs, pollMs), undefined, { signal })
  }

  /** Lets guests start. Call it when guests that belong to other hosts are fenced. */
  async open(): Promise<void> {
    await this.record()
    this.#untilMs = -Infinity
  }
}

/**
 * Returns a gate that waits if no gateway has compared the owners since the last boot of the host. A restart of the agent
 * does not open it.
 * @param bootId id of the present boot, from the kernel
 */
export async function openStartGate(stateDir: string, bootId: string, waitMs: number): Promise<StartGate> {
  const file = join(stateDir, 'boot-id')
  const before = await readFile(file, 'utf8').catch(() => '')
  const isKnown = before.trim() === bootId
  const record = (): Promise<void> => (isKnown ? Promise.resolve() : writeFileAtomic(file, `${bootId}\n`))
  return new StartGate(before === '' || isKnown ? 0 : waitMs, record)
}
