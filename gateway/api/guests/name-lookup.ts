import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'

export interface NameLookupOptions {
  readonly timeoutMs: number
  /** How long an answer is used again, also an empty one. */
  readonly keepMs: number
  /** Names at a time: the oldest are dropped. */
  readonly keep: number
  /** Default: the name servers of this machine. */
  readonly servers?: readonly string[]
  /** Default: /etc/hosts. */
  readonly hostsFile?: string
}

interface Answer {
  readonly addresses: Promise<string[]>
  readonly untilMs: number
}

/**
 * Resolves names through DNS, without the threads that `dns.lookup` shares with files and passwords: an outage of the
 * name servers blocks nothing else. Each name is looked up once at a time. /etc/hosts comes first.
 */
export class NameLookup {
  readonly #answers = new Map<string, Answer>()

  constructor(private readonly options: NameLookupOptions) {}

  /** @returns [] where the name is not known or the answer takes too long */
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

  /** Ends after `timeoutMs`, whatever the name servers do. */
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

/** Source: hosts(5) */
function findInHosts(text: string, name: string): string[] {
  const rows = text.split('\n').map((line) => line.replace(/#.*/, '').trim().split(/\s+/))
  return rows.flatMap(([address = '', ...names]) =>
    names.some((listed) => listed.toLowerCase() === name.toLowerCase()) ? [address] : [],
  )
}
