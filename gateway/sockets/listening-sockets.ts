import { lookup } from 'node:dns/promises'
import { closeSync } from 'node:fs'
import type { Server } from 'node:net'
import type { Logger } from 'pino'
import { DescriptorStore } from './descriptor-store.js'
import { nameOf, planInherited, type ServiceEnvironment } from './plan-inherited.js'

export interface ListenAddress {
  readonly host: string
  /** Port on which to listen. 0: any free port. */
  readonly port: number
}

/** Maximum number of connections that wait to be accepted, also during a restart (at most net.core.somaxconn). */
const backlog = 4096

/** @throws the error of listen(2) */
export function listenOn(server: Server, { host, port }: ListenAddress): Promise<void> {
  return listening(server, () => server.listen({ host, port, backlog }))
}

/**
 * The listening sockets of a service, named after their addresses. systemd has copies of the sockets. These stay open
 * while the service restarts. A socket is closed when its address is no longer configured.
 */
export class ListeningSockets {
  /** Names of the sockets that systemd holds. */
  readonly #stored: Set<string>

  private constructor(
    private readonly store: DescriptorStore,
    /** Descriptors, by name, of the sockets from before the restart that no server has taken over yet. */
    private readonly inherited: Map<string, number>,
    private readonly log: Logger,
  ) {
    this.#stored = new Set(inherited.keys())
  }

  /** @returns undefined if systemd did not start this process and therefore cannot keep its sockets open */
  static of(environment: ServiceEnvironment, log: Logger): ListeningSockets | undefined {
    const { NOTIFY_SOCKET: notifySocket } = environment
    if (!notifySocket) return undefined
    return new ListeningSockets(new DescriptorStore(notifySocket), planInherited(environment, process.pid), log)
  }

  /** Uses the socket from before the restart, or opens and stores another socket. @throws the error of listen(2) */
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
    this.log.info({ socket: name }, 'the gateway uses a listening socket from systemd')
  }

  /** Opens a socket. For `::`, first closes an inherited socket for `0.0.0.0` if it occupies the port. */
  async #open(server: Server, host: string, port: number): Promise<void> {
    try {
      await listenOn(server, { host, port })
    } catch (error) {
      const former = nameOf('0.0.0.0', port)
      if (host !== '::' || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || !this.inherited.has(former))
        throw error
      await this.#remove(former)
      await listenOn(server, { host, port })
    }
  }

  /** Closes sockets from before the restart, except those whose addresses are in the list. */
  async retain(addresses: readonly ListenAddress[]): Promise<void> {
    const names = new Set(await namesOf(addresses))
    for (const name of [...this.inherited.keys()]) if (!names.has(name)) await this.#remove(name)
  }

  /** Closes the stored socket of an address that is no longer in use. */
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
        'a listening socket could not be handed to systemd; the next restart of the gateway will close it for a moment',
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
        this.log.error(
          { err, socket: name },
          'could not remove a listening socket from the file descriptor store of systemd',
        ),
      )
  }
}

/** Names of the sockets of these addresses. Listeners on `::` use `0.0.0.0` on a host without IPv6. */
async function namesOf(addresses: readonly ListenAddress[]): Promise<string[]> {
  const all = addresses.flatMap(({ host, port }) =>
    (host === '::' ? [host, '0.0.0.0'] : [host]).map((on) => [on, port]),
  )
  return Promise.all(all.map(async ([host, port]) => nameOf(await addressOf(String(host)), Number(port))))
}

/** Resolves a host name. If this fails, returns the name, which matches no socket. */
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
