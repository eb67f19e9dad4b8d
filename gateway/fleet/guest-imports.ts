import type { Logger } from 'pino'
import type { GuestImport } from '../../proto/gen/berth/agent/v1/import.js'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { BerthError, describeError } from '../../shared/errors.js'
import type { Fleet } from './contract.js'
import type { FleetState } from './view.js'

const lookEveryMs = 1000

export interface GuestImportsParts {
  readonly view: FleetState
  readonly fleet: Pick<Fleet, 'createGuest' | 'agent'>
  readonly log: Logger
}

/**
 * Creates the guests of imports that hosts have reported. The id of an import is also the id of the creation. Several
 * gateways that see the same import therefore create only one guest.
 */
export class GuestImports {
  readonly #working = new KeyedSingleFlight<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly parts: GuestImportsParts) {}

  start(): void {
    this.#timer = setInterval(() => this.#look(), lookEveryMs)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#working.keys.map((id) => this.#working.settled(id)))
  }

  #look(): void {
    for (const { record, online, imports } of this.parts.view.states())
      if (online)
        for (const request of imports.values())
          void this.#working.run(request.id, async () => {
            if (await this.#create(record.id, request)) imports.delete(request.id)
          })
  }

  /** Never rejects. @returns true if the import has a result; otherwise the next check tries again */
  async #create(hostId: string, { id, name, spec }: GuestImport): Promise<boolean> {
    const { fleet, log } = this.parts
    try {
      await fleet.createGuest({ operationId: id, requestedBy: 'import', name, spec: spec!, hostId })
      log.info({ host: hostId, import: id, name }, 'the import of a container of the host has begun')
      return true
    } catch (error) {
      const reason = describeError(error)
      log[isFinal(error) ? 'warn' : 'debug']({ host: hostId, import: id, name, reason }, 'could not import a container')
      return isFinal(error) && (await this.#refuse(hostId, id, error.message))
    }
  }

  async #refuse(hostId: string, id: string, message: string): Promise<boolean> {
    try {
      await this.parts.fleet.agent(hostId).imports.refuseImport({ id, message })
      return true
    } catch (error) {
      this.parts.log.debug(
        { host: hostId, import: id, error },
        'could not report to a host that its import was refused',
      )
      return false
    }
  }
}

/** True if the operator must change something before the import can succeed. */
function isFinal(error: unknown): error is BerthError {
  return error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found'].includes(error.kind)
}
