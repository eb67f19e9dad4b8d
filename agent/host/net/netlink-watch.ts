import { createInterface } from 'node:readline'
import { perlProgram } from '../process/perl-program.js'
import { isToolPid } from '../process/pipe.js'
import { start } from '../process/process.js'

/** Pause in ms before the watching process is started again. Each failure to listen doubles the pause. */
const restartMs = { first: 1000, longest: 60_000 }

/**
 * Kind of change. `tables`: the agent's nft tables; `others`: nft tables of other programs; `rates`: settings of tc;
 * `links`: the bridge, guests' interfaces, and addresses.
 */
export type NetlinkTopic = 'tables' | 'others' | 'rates' | 'links'

export interface NetlinkNames {
  readonly table: string
  readonly bridge: string
  /** Prefix of guests' interfaces. A number follows it. */
  readonly interface_prefix: string
}

/**
 * Reports changes of the network, except changes by this agent's tools. Reports all topics when the watch starts or
 * restarts, and when notifications were lost.
 */
export class NetlinkWatch {
  readonly #listeners: Readonly<Record<NetlinkTopic, Set<() => void>>> = {
    tables: new Set(),
    others: new Set(),
    rates: new Set(),
    links: new Set(),
  }
  #child: ReturnType<typeof start> | undefined
  #restart: NodeJS.Timeout | undefined
  #restartMs = restartMs.first
  #closed = false

  /** @param onEnd called with the reason when the watch has ended; the watch starts again after a pause */
  constructor(
    private readonly names: NetlinkNames,
    private readonly onEnd: (reason: string) => void = () => undefined,
  ) {
    this.#start()
  }

  onChange(topic: NetlinkTopic, listener: () => void): void {
    this.#listeners[topic].add(listener)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#restart)
    this.#child?.kill('SIGKILL')
  }

  #start(): void {
    const { table, bridge, interface_prefix: prefix } = this.names
    const child = start('/usr/bin/perl', [perlProgram('netlink-watch'), table, bridge, prefix])
    this.#child = child
    createInterface({ input: child.stdout }).on('line', (line) => this.#take(line))
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-500)))
    let gone = false
    const again = (error?: unknown): void => {
      if (gone || this.#closed) return
      gone = true
      this.#tellAll()
      this.onEnd(error instanceof Error ? error.message : said.trim() || 'killed')
      this.#restart = setTimeout(() => this.#start(), this.#restartMs).unref()
      this.#restartMs = Math.min(this.#restartMs * 2, restartMs.longest)
    }
    child.once('error', again).once('close', again)
  }

  #take(line: string): void {
    const [topic = '', pid] = line.split(' ')
    if (topic === 'ready') this.#restartMs = restartMs.first
    if (!isTopic(topic)) this.#tellAll()
    else if (!isToolPid(Number(pid))) this.#tell(topic)
  }

  #tellAll(): void {
    for (const topic of topics) this.#tell(topic)
  }

  #tell(topic: NetlinkTopic): void {
    for (const listener of this.#listeners[topic]) listener()
  }
}

const topics: readonly NetlinkTopic[] = ['tables', 'others', 'rates', 'links']

function isTopic(text: string): text is NetlinkTopic {
  return topics.some((topic) => topic === text)
}
