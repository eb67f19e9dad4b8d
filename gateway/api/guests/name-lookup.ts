import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'

export interface NameLookupOptions {
  readonly timeoutMs: number
  /** Time in ms for which an answer is reused. Empty answers are reused, too. */
  readonly keepMs: number
  /** Maximum number of names with stored answers. If there are more, the oldest answers are dropped. */
  readonly keep: number
  /** Addresses of name servers. Default: the servers that this system uses. */
  readonly servers?: readonly string[]
  /** Path of the hosts file. Default: /etc/hosts. */
  readonly hostsFile?: string
}

interface Answer {
  readonly addresses: Promise<string[]>
  readonly untilMs: number
}

/**
 * Resolves names with the hosts file and DNS. Unlike `dns.lookup`, it does not use the thread pool, so that an outage
 * of the name servers delays nothing else. Concurrent look-ups of a name share one query.
 */
export class NameLookup {
  readonly #answers = new Map<string, Answer>()

  constructor(private readonly options: NameLookupOptions) {}

  /** @returns [] if the name is not known, or the answer takes too long */
  resolve(name: string): Promise<string[]> {
    const nowMs = performance.now()
    const known = this.#answers.get(name)
    if (known && known.untilMs > nowMs) return known.addresses
    const { keep, keepMs, timeoutMs } = this.options
    const answer = { addresses: this.#query(name), untilMs: nowMs + timeoutMs + keepMs }
    this.#answers.delete(name)
    this.#answers.set(name, answer)
    const [oldest] = this.#answers.keys()
    if (this.#answers.size > keep && oldest !== undefined) this.#answers.delete(oldest)
    return answer.addresses
  }

  /** Looks up a name for at most `timeoutMs`. */
  async #query(name: string): Promise<string[]> {
    const { timeoutMs, servers, hostsFile = '/etc/hosts' } = this.options
    const listed = findInHosts(await readFile(hostsFile, 'utf8').catch(() => ''), name)
    if (listed.length > 0) return listed
    const resolver = new Resolver({ timeout: timeoutMs, tries: 1 })
    if (servers) resolver.setServers(servers)
    const timer = setTimeout(() => resolver.cancel(), timeoutMs)
    try {
      const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
      return found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Finds the addresses of a name in a hosts file. Source: hosts(5) */
function findInHosts(text: string, name: string): string[] {
  const rows = text.split('\n').map((line) => line.replace(/#.*/, '').trim().split(/\s+/))
  return rows.flatMap(([address = '', ...names]) =>
    names.some((listed) => listed.toLowerCase() === name.toLowerCase()) ? [address] : [],
  )
}
