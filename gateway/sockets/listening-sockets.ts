import { lookup } from 'node:dns/promises'
import { closeSync } from 'node:fs'
import type { Server } from 'node:net'
import type { Logger } from 'pino'
import { DescriptorStore } from './descriptor-store.js'
import { nameOf, planInherited, type ServiceEnvironment } from './plan-inherited.js'

export interface ListenAddress {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

/** Connections that wait in the kernel, also while no process accepts any. The kernel's limit is net.core.somaxconn. */
const backlog = 4096

/** @throws the error of listen(2) */
export function listenOn(server: Server, { host, port }: ListenAddress): Promise<void> {
  return listening(server, () => server.listen({ host, port, backlog }))
}

/**
 * The listening sockets of a service, which outlive its process: systemd holds copies of them while the service restarts.
 * Their addresses name them, so a socket of an address that the configuration no longer has is closed.
 */
export class ListeningSockets {
  /** Names of the sockets that systemd holds. */
  readonly #stored: Set<string>

  private constructor(
    private readonly store: DescriptorStore,
    /** Sockets of the former process that no server has adopted. */
    private readonly inherited: Map<string, number>,
    private readonly log: Logger,
  ) {
    this.#stored = new Set(inherited.keys())
  }

  /** @returns undefined outside systemd, where sockets end with the process */
  static of(environment: ServiceEnvironment, log: Logger): ListeningSockets | undefined {
    const { NOTIFY_SOCKET: notifySocket } = environment
    if (!notifySocket) return undefined
    return new ListeningSockets(new DescriptorStore(notifySocket), planInherited(environment, process.pid), log)
  }

  /** Adopts the socket of the former process, or else opens one and stores it. @throws the error of listen(2) */
  async listen(server: Server, { host, port }: ListenAddress): Promise<void> {
    const { address } = await lookup(host)
    const name = nameOf(address, port)
    const fd = this.inherited.get(name)
    if (fd === undefined) {
      await this.#open(server, address, port)
      return this.#add(name, server)
    }
    this.inherited.delete(name)
    await listening(server, () => server.listen({ fd }, backlog))
    this.log.info({ socket: name }, 'listening socket adopted')
  }

  /** Opens a socket. If the address was `0.0.0.0` before, the stored socket still occupies the port. */
  async #open(server: Server, host: string, port: number): Promise<void> {
    try {
      await listenOn(server, { host, port })
    } catch (error) {
      const former = nameOf('0.0.0.0', port)
      if (host !== '::' || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || !this.inherited.has(former)) throw error
      await this.#remove(former)
      await listenOn(server, { host, port })
    }
  }

  /** Closes the sockets of the former process at all other addresses. */
  async retain(addresses: readonly ListenAddress[]): Promise<void> {
    const names = new Set(await namesOf(addresses))
    for (const name of [...this.inherited.keys()]) if (!names.has(name)) await this.#remove(name)
  }

  /** Closes the stored socket of an address on which nothing listens any more. */
  async release(address: ListenAddress): Promise<void> {
    for (const name of await namesOf([address])) await this.#remove(name)
  }

  async #add(name: string, server: Server): Promise<void> {
    try {
      await this.store.store(name, server)
      this.#stored.add(name)
    } catch (err) {
      this.log.warn(
        { err, socket: name },
        'a listening socket could not be stored; a restart of the gateway will close it for a moment',
      )
    }
  }

  async #remove(name: string): Promise<void> {
    if (!this.#stored.delete(name)) return
    const fd = this.inherited.get(name)
    if (fd !== undefined) closeSync(fd)
    this.inherited.delete(name)
    await this.store
      .remove(name)
      .catch((err: unknown) =>
        this.log.error({ err, socket: name }, 'removing a listening socket from the store failed'),
      )
  }
}

/** Listeners on `::` use IPv4 on a host without IPv6. */
async function namesOf(addresses: readonly ListenAddress[]): Promise<string[]> {
  const all = addresses.flatMap(({ host, port }) =>
    (host === '::' ? [host, '0.0.0.0'] : [host]).map((on) => [on, port]),
  )
  return Promise.all(all.map(async ([host, port]) => nameOf(await addressOf(String(host)), Number(port))))
}

/** A name that cannot be resolved is nobody's address. */
async function addressOf(host: string): Promise<string> {
  return lookup(host).then(
    ({ address }) => address,
    () => host,
  )
}

function listening(server: Server, listen: () => unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.once('listening', () => {
      server.off('error', reject)
      resolve()
    })
    listen()
  })
}
