import { Nft } from '../../agent/host/net/nft.js'
import { run } from '../../agent/host/process/process.js'
import type { FirewallChains } from '../../agent/network/nft/firewall/plan-firewall.js'

/** The floor: nft(8) itself, with exactly the agent's commands for a change and nothing else. */
export class RawNft {
  readonly #pipe = new Nft()

  /**
   * @param way one process for each call, as a script would, or one `nft -i` for all of them
   * @param table one that has what the agent's tables have
   */
  constructor(
    private readonly way: 'spawned' | 'pipe',
    private readonly table: string,
  ) {}

  /** @param target as `10.77.0.2 . 22` */
  async addMapping(protocol: 'tcp' | 'udp', hostPort: number, target: string): Promise<void> {
    await this.#apply([`add element ${this.#ports} { ${protocol} . ${hostPort} : ${target} }`])
  }

  async deleteMapping(protocol: 'tcp' | 'udp', hostPort: number): Promise<void> {
    await this.#apply([`delete element ${this.#ports} { ${protocol} . ${hostPort} }`])
  }

  /** Maps to another target in one transaction: nft refuses another value for an existing key. */
  async moveMapping(protocol: 'tcp' | 'udp', hostPort: number, target: string): Promise<void> {
    await this.#apply([
      `delete element ${this.#ports} { ${protocol} . ${hostPort} }`,
      `add element ${this.#ports} { ${protocol} . ${hostPort} : ${target} }`,
    ])
  }

  /** Replaces both chains in one transaction. */
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

  /** Spawned by the agent's small launcher: forking a large process would cost more than nft does. */
  async #apply(commands: readonly string[]): Promise<void> {
    if (this.way === 'pipe') await this.#pipe.apply(commands)
    else await run('nft', ['-f', '-'], { stdin: `${commands.join('\n')}\n` })
  }
}
