import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinGateway } from '../../agent/enrollment/join.js'
import { GatewayConfigSchema, type GatewayConfig } from '../../gateway/config.js'
import { GatewayFleet } from '../../gateway/fleet/fleet.js'
import type { Store } from '../../gateway/store/store.js'
import { GuestSpec, Virtualization } from '../../proto/gen/berth/agent/v1/guest.js'
import { validateConfig } from '../../shared/config.js'
import { BerthError } from '../../shared/errors.js'
import { freePort } from './ports.js'
import { silentLog, startTestRedis, type TestRedis } from './redis.js'
import { SimulatedAgent, type SimulatedAgentOptions } from './simulated-agent.js'
import { SimulatedHost } from './simulated-host.js'
import { waitFor } from './wait.js'

/** A gateway's fleet on a real Redis, with simulated agents that joined it by token. */
export interface TestFleet {
  readonly fleet: GatewayFleet
  readonly redis: TestRedis
  readonly store: Store
  readonly config: GatewayConfig
  readonly directory: string
  /** Creates a host, joins it and serves; resolves once it is online. */
  addHost(name: string, options?: AddHostOptions): Promise<{ hostId: string; agent: SimulatedAgent }>
  /** Another gateway on the same store and CA. */
  startGateway(): Promise<GatewayFleet>
  close(): Promise<void>
}

export interface AddHostOptions extends Partial<SimulatedAgentOptions> {
  guests?: number
  firstId?: number
  /** Called with the host's state before it is served. */
  prepare?: (host: SimulatedHost) => void
  /** Default true. */
  waitOnline?: boolean
}

/** For tests that wait for agents to be given up. */
export const impatient = { agents: { silence_ms: 3000, call_timeout_ms: 2000 } }

export async function startTestFleet(
  overrides: Record<string, unknown> = {},
  log = silentLog,
): Promise<TestFleet> {
  const directory = await mkdtemp(join(tmpdir(), 'btest-fleet-'))
  const redis = await startTestRedis()
  const store = await redis.openStore()
  const config = validateConfig(
    GatewayConfigSchema,
    { state_dir: directory, join_listen: '127.0.0.1:0', ...overrides },
    'test',
  )
  const gateways: GatewayFleet[] = []
  const agents: SimulatedAgent[] = []
  const startGateway = async (): Promise<GatewayFleet> => {
    const fleet = await GatewayFleet.start({ store, config, log })
    gateways.push(fleet)
    return fleet
  }
  const fleet = await startGateway()
  return {
    ...{ fleet, redis, store, config, directory, startGateway },
    addHost: async (name, options = {}) => {
      // The port must be known before the host is: the agent is served on one that was free a moment ago.
      const probe = await freePort()
      const created = await fleet.hosts.createHost({ name, address: `127.0.0.1:${probe}` })
      const { token } = await fleet.hosts.createJoinToken(created.id)
      const identityDir = join(directory, `agent-${name}`)
      await joinGateway(token, identityDir)
      const host = new SimulatedHost(created.id)
      host.seed(options.guests ?? 0, options.firstId)
      options.prepare?.(host)
      const listen = `127.0.0.1:${probe}`
      const agent = await SimulatedAgent.start({ ...options, identityDir, host, listen })
      agents.push(agent)
      if (options.waitOnline ?? true)
        await waitFor(() => fleet.view.findHost(created.id)?.state === 'online', { what: `${name} online` })
      return { hostId: created.id, agent }
    },
    close: async () => {
      await Promise.all(gateways.map((gateway) => gateway.close()))
      agents.forEach((agent) => agent.stop())
      await redis.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Of a guest with that name, under an operation id of its own. */
export function creationRequest(name: string, more: object = {}) {
  return { operationId: randomUUID(), name, spec, requestedBy: 'api:test', ...more }
}

const spec = GuestSpec.fromPartial({
  virtualization: Virtualization.VIRTUALIZATION_LXC,
  templateId: 'debian-12',
  limits: { vcpuMilli: 1000, ramMb: 512, diskGb: 10 },
  assignNat: true,
  start: true,
})

/** The code of the error it failed with; `ok`: it did not. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'ok'
  } catch (error) {
    return error instanceof BerthError ? error.code : String(error)
  }
}
