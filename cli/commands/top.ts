import { setTimeout as delay } from 'node:timers/promises'
import { isTemporary, RefusedError, type BerthClient, type BerthEvent } from '../../client/index.js'
import { formatResult } from '../output/print.js'
import { openSession, outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { planScreen, planTables } from '../top/plan-screen.js'
import { withFullScreen, type FullScreen } from '../top/terminal.js'
import { readUsage, withEvent, type FleetUsage } from '../top/usage.js'

export interface TopRun {
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

const refreshMs = 3000

/** Shows the usage of hosts and guests until the user quits. Without a terminal, prints the usage only one time. */
export async function runTop({ options, surroundings }: TopRun): Promise<void> {
  const output = outputOptions(options, 'top', surroundings.width)
  const { client } = await openSession(surroundings, options)
  const first = await readUsage(client)
  if (output.form !== 'table') {
    const value = output.form === 'csv' ? first.guests : first
    return surroundings.writeOut(await formatResult(value, '', output))
  }
  if (surroundings.width === undefined || !process.stdin.isTTY)
    return surroundings.writeOut(planTables(first, surroundings.width))
  surroundings.endWithReader()
  await withFullScreen((screen) => new LiveUsage(client, screen, first).run())
}

/** The usage on the screen. It is read every few seconds. Between two reads, events update the usage of hosts. */
class LiveUsage {
  #note = ''

  constructor(
    private readonly client: BerthClient,
    private readonly screen: FullScreen,
    private usage: FleetUsage,
  ) {}

  async run(): Promise<void> {
    const draw = (): void => this.#draw()
    process.stdout.on('resize', draw)
    this.#draw()
    try {
      await Promise.race([this.screen.closed, this.#refresh(), this.#followEvents()])
    } finally {
      process.stdout.off('resize', draw)
    }
  }

  #draw(): void {
    const note = this.#note || new Date().toTimeString().slice(0, 8)
    this.screen.draw(planScreen(this.usage, { ...this.screen.size(), title: this.client.connection.url, note }))
  }

  async #refresh(): Promise<never> {
    for (;;) {
      await delay(refreshMs)
      try {
        this.usage = await readUsage(this.client)
        this.#note = ''
      } catch (cause) {
        if (!isTemporary(cause)) throw cause
        this.#note = (cause as Error).message
      }
      this.#draw()
    }
  }

  async #followEvents(): Promise<never> {
    for (; ; await delay(refreshMs)) {
      try {
        for await (const event of this.client.events({ kinds: ['usage'] })) this.#take(event)
      } catch (cause) {
        // With a key that cannot read events or hosts, the usage comes only from repeated requests.
        if (cause instanceof RefusedError && cause.status === 403) return new Promise(() => undefined)
        if (!isTemporary(cause)) throw cause
      }
    }
  }

  #take({ type, data }: BerthEvent): void {
    this.usage = withEvent(this.usage, type, data)
    this.#draw()
  }
}
