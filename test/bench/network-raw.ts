import { Nft } from '../../agent/host/net/nft.js'
import { run } from '../../agent/host/process/process.js'
import type { FirewallChains } from '../../agent/network/nft/firewall/plan-firewall.js'

/** Baseline of the measurements: only the nft commands that the agent would run for the same change. */
export class RawNft {
  readonly #pipe = new Nft()

  /**
   * @param way `spawned` starts a process for each call, as a script does; `pipe` uses one `nft -i` for all calls
   * @param table a table with the same contents as the agent's tables
   */
  constructor(
    private readonly way: 'spawned' | 'pipe',
    private readonly table: string,
  ) {}

  /** @param target address and port, such as `10.77.0.2 . 22` */
  async addMapping(protocol: 'tcp' | 'udp', hostPort: number, target: string): Promise<void> {
    await this.#apply([`add element ${this.#ports} { ${protocol} . ${hostPort} : ${target} }`])
  }

  async deleteMapping(protocol: 'tcp' | 'udp', hostPort: number): Promise<void> {
    await this.#apply([`delete element ${this.#ports} { ${protocol} . ${hostPort} }`])
  }

  /** Changes a mapping's target. One transaction deletes and adds the key, because nft refuses to change its value. */
  async moveMapping(protocol: 'tcp' | 'udp', hostPort: number, target: string): Promise<void> {
    await this.#apply([
      `delete element ${this.#ports} { ${protocol} . ${hostPort} }`,
      `add element ${this.#ports} { ${protocol} . ${hostPort} : ${target} }`,
    ])
  }

  /** Replaces the rules of both chains in one transaction. */
  async replaceFirewall(chains: FirewallChains): Promise<void> {
    const each = (['in', 'out'] as const).flatMap((direction) => {
      const chain = `inet ${this.table} ${direction}_${chains.device}`
      return [`flush chain ${chain}`, ...chains[direction].map((rule) => `add rule ${chain} ${rule}`)]
    })
    await this.#apply(each)
  }

  close(): Promise<void> {
    return this.#pipe.close()
  }

  get #ports(): string {
    return `ip ${this.table} ports`
  }

  /** Runs nft commands. The agent's launcher spawns nft, because forking a larger process would cost more. */
  async #apply(commands: readonly string[]): Promise<void> {
    if (this.way === 'pipe') await this.#pipe.apply(commands)
    else await run('nft', ['-f', '-'], { stdin: `${commands.join('\n')}\n` })
  }
}
