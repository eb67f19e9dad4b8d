import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { GatewayConfigSchema, type GatewayConfig } from '../../../gateway/config.js'
import { GatewayFleet } from '../../../gateway/fleet/fleet.js'
import type { Store } from '../../../gateway/store/store.js'
import { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { validateConfig } from '../../../shared/config.js'
import { BerthError } from '../../../shared/errors.js'
import type { Logger } from 'pino'
import { silentLog, startTestRedis, type TestRedis } from './redis.js'
import { LabAgent, type LabAgentOptions } from '../memory/lab-agent.js'
import { MemoryHost } from '../memory/memory-host.js'
import { RogueAgent, type RogueOptions } from '../attacks/rogue-agent.js'
import { waitFor } from '../wait.js'

/** The fleet of a gateway on a real Redis. Its agents run in this process and have joined by token. */
export interface TestFleet {
  readonly fleet: GatewayFleet
  readonly redis: TestRedis
  readonly store: Store
  readonly config: GatewayConfig
  readonly directory: string
  /** Creates a host, lets an agent join, and starts the agent. Resolves when the gateway shows the host as online. */
  addHost(name: string, options?: AddHostOptions): Promise<{ hostId: string; agent: LabAgent }>
  /** Like `addHost`, but with an agent that misbehaves. */
  addRogue(name: string, options?: RogueOptions): Promise<{ hostId: string; agent: RogueAgent }>
  /** Starts another gateway on the same store and CA. @param own the gateway's own connection to the store */
  startGateway(own?: Store, settleMs?: number): Promise<GatewayFleet>
  close(): Promise<void>
}

export interface AddHostOptions extends Partial<LabAgentOptions> {
  guests?: number
  firstId?: number
  /** Called before the gateway learns the agent's address. */
  prepare?: (agent: LabAgent) => void
}

/** Capacity of a host for thousands of guests. */
const large = { cpuCores: 64, ramTotalMb: 4_194_304, diskTotalGb: 65_536 }

export interface TestFleetOptions {
  readonly log?: Logger
  /** A Redis for several fleets with different prefixes. The test stops it. Default: a new Redis. */
  readonly redis?: TestRedis | undefined
}

let fleets = 0

export async function startTestFleet(
  overrides: Record<string, unknown> = {},
  { log = silentLog, redis: shared }: TestFleetOptions = {},
): Promise<TestFleet> {
  const directory = await mkdtemp(join(tmpdir(), 'btest-fleet-'))
  const redis = shared ?? (await startTestRedis())
  const store = await redis.openStore(`btest${++fleets}:`)
  const config = validateConfig(
    GatewayConfigSchema,
    { state_dir: directory, join_listen: '127.0.0.1:0', ...overrides },
    'test',
  )
  const gateways: GatewayFleet[] = []
  const agents: { destroy(): Promise<void> }[] = []
  const startGateway = async (own = store, settleMs?: number): Promise<GatewayFleet> => {
    const fleet = await GatewayFleet.start({ version: '0.0.0', store: own, config, log, settleMs })
    gateways.push(fleet)
    return fleet
  }
  const fleet = await startGateway()
  /** Creates a host and lets it join. No agent listens at its address yet. */
  const joinHost = async (name: string): Promise<{ hostId: string; identityDir: string }> => {
    const { id } = await fleet.hosts.createHost({ name, address: `127.0.0.1:${++nobodyPort}` })
    const { token } = await fleet.hosts.createJoinToken(id)
    const identityDir = join(directory, `agent-${name}`)
    await joinGateway(token, identityDir)
    return { hostId: id, identityDir }
  }
  const connect = async (hostId: string, address: string): Promise<void> => {
    await fleet.hosts.updateHost(hostId, { address })
    await waitFor(() => fleet.view.findHost(hostId)?.state === 'online', { what: `${hostId} online` })
  }
  let nobodyPort = 1
  return {
    fleet,
    redis,
    store,
    config,
    directory,
    startGateway,
    addHost: async (name, options = {}) => {
      const joined = await joinHost(name)
      const agent = await LabAgent.start({
        host: new MemoryHost(large),
        ...options,
        identityDir: joined.identityDir,
      })
      agents.push(agent)
      agent.seed(options.guests ?? 0, options.firstId)
      options.prepare?.(agent)
      await connect(joined.hostId, agent.address)
      return { hostId: joined.hostId, agent }
    },
    addRogue: async (name, options = {}) => {
      const { hostId, identityDir } = await joinHost(name)
      const agent = await RogueAgent.start(identityDir, options)
      agents.push(agent)
      await connect(hostId, agent.address)
      return { hostId, agent }
    },
    close: async () => {
      await Promise.all(gateways.map((gateway) => gateway.close()))
      await Promise.all(agents.map((agent) => agent.destroy()))
      await store.close()
      if (!shared) await redis.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Makes a request to create a guest with a name. The request has a new operation id. */
export function creationRequest(name: string, more: object = {}) {
  return { operationId: randomUUID(), name, spec: guestSpec, requestedBy: 'api:test', ...more }
}

/** Fields of a guest that every host supports. */
export const guestSpec = GuestSpec.fromPartial({
  virtualization: 'lxc',
  templateId: 'debian-12',
  limits: { vcpuMilli: 1000, ramMb: 512, diskGb: 10 },
  assignNat: true,
  sshAuthMode: 'auto_password',
  start: true,
})

/** Resolves with the code of the error, or with `ok`. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'ok'
  } catch (error) {
    return error instanceof BerthError ? error.code : String(error)
  }
}
