import { createInterface } from 'node:readline'
import { start } from './process.js'

const restartMs = 1000

/**
 * Calls back when another program than `isOwn` changed a table, in whatever family: `nft monitor` names the
 * process behind each transaction. Also when events were lost, or the monitor had to be started again.
 */
export class NftMonitor {
  #child: ReturnType<typeof start> | undefined
  #restart: NodeJS.Timeout | undefined
  #closed = false

  constructor(
    private readonly table: string,
    private readonly isOwn: (pid: number) => boolean,
    private readonly onChange: () => void,
  ) {
    this.#start()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#restart)
    this.#child?.kill('SIGKILL')
  }

  #start(): void {
    const child = start('nft', ['monitor'])
    this.#child = child
    const parser = new MonitorParser(this.table)
    createInterface({ input: child.stdout }).on('line', (line) => {
      const change = parser.take(line)
      if (change && !this.isOwn(change.pid)) this.onChange()
    })
    child.stderr.resume()
    let gone = false
    const again = (): void => {
      if (gone || this.#closed) return
      gone = true
      this.onChange()
      this.#restart = setTimeout(() => this.#start(), restartMs).unref()
    }
    child.once('error', again).once('close', again)
  }
}

/** Puts together the lines of `nft monitor`: what changed, then who did it. */
export class MonitorParser {
  readonly #ours: RegExp
  #touched = false

  constructor(table: string) {
    this.#ours = new RegExp(`^(?:add|delete|insert|replace) \\w+ (?:ip6?|inet|bridge) ${table}(?: |$)`)
  }

  /** @returns the transaction that this line ends, when it touched the table; pid 0: events were lost */
  take(line: string): { pid: number } | undefined {
    if (line.includes('lost some netlink events')) return { pid: 0 }
    const generation = /^# new generation \d+ by process (\d+)/.exec(line)
    if (!generation) {
      this.#touched ||= this.#ours.test(line)
      return undefined
    }
    const touched = this.#touched
    this.#touched = false
    return touched ? { pid: Number(generation[1]) } : undefined
  }
}
